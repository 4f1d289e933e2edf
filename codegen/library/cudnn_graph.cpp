#include "codegen/library/cudnn_graph.h"

#include <array>
#include <utility>

namespace rewire::codegen::cudnn {
namespace {

constexpr std::int64_t kAlignment = 16;  // bytes, of every tensor with memory

std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t d = dims.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * dims[d + 1];
  return strides;
}

}  // namespace

Object::Object(Kind kind, const std::string& what) : what_(what) {
  check(usable_functions().create_descriptor(kind, &descriptor_), "cudnnBackendCreateDescriptor", what_);
}

Object::~Object() {
  if (descriptor_ != nullptr) any_functions().destroy_descriptor(descriptor_);
}

Object::Object(Object&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, nullptr)), what_(std::move(other.what_)) {}

Object& Object::operator=(Object&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(what_, other.what_);
  return *this;
}

void Object::put(Attribute attribute, std::span<const std::int64_t> values) {
  put(attribute, kInt64Type, static_cast<std::int64_t>(values.size()), values.data());
}

void Object::put(Attribute attribute, std::span<const Descriptor> descriptors) {
  put(attribute, kDescriptorType, static_cast<std::int64_t>(descriptors.size()), descriptors.data());
}

void Object::put(Attribute attribute, Type type, std::int64_t count, const void* array) {
  check(usable_functions().set_attribute(descriptor_, attribute, type, count, array),
        "cudnnBackendSetAttribute", what_);
}

void Object::finalize() {
  check(usable_functions().finalize(descriptor_), "cudnnBackendFinalize", what_);
}

bool Object::finalize(std::string& refusal) {
  const Status status = usable_functions().finalize(descriptor_);
  if (is_refusal(status)) {
    refusal = words(status);
    return false;
  }
  check(status, "cudnnBackendFinalize", what_);
  return true;
}

std::int64_t Object::get_int64(Attribute attribute) const {
  std::int64_t value = 0, count = 0;
  check(usable_functions().get_attribute(descriptor_, attribute, kInt64Type, 1, &count, &value),
        "cudnnBackendGetAttribute", what_);
  return value;
}

std::int32_t Object::get_enum(Attribute attribute, Type type) const {
  std::int32_t value = 0;
  std::int64_t count = 0;
  check(usable_functions().get_attribute(descriptor_, attribute, type, 1, &count, &value),
        "cudnnBackendGetAttribute", what_);
  return value;
}

std::int64_t Object::count(Attribute attribute) const {
  std::int64_t count = 0;
  check(usable_functions().get_attribute(descriptor_, attribute, kDescriptorType, 0, &count, nullptr),
        "cudnnBackendGetAttribute", what_);
  return count;
}

std::int64_t Object::fill(Attribute attribute, std::span<const Object> objects) const {
  std::vector<Descriptor> descriptors;
  for (const Object& object : objects) descriptors.push_back(object.get());
  std::int64_t count = 0;
  check(usable_functions().get_attribute(descriptor_, attribute, kDescriptorType,
                                         static_cast<std::int64_t>(descriptors.size()), &count,
                                         descriptors.data()),
        "cudnnBackendGetAttribute", what_);
  return count;
}

AttentionGraph::AttentionGraph(const DeviceAttentionShape& shape, const std::string& what)
    : shape_(shape),
      what_(what),
      dims_{shape.batch, shape.heads, shape.queries, shape.keys},
      strides_(dense_strides(dims_)),
      row_dims_{shape.batch, shape.heads, shape.queries, 1},
      row_strides_(dense_strides(row_dims_)),
      graph_(kGraph, what) {
  shape.gradient ? build_gradient() : build_forward();
}

bool AttentionGraph::finalize(Handle handle, std::string& refusal) {
  graph_.put(kGraphOperations, std::span<const Descriptor>(operations_));
  if (handle != nullptr) graph_.put(kGraphHandle, kHandleType, 1, &handle);
  return graph_.finalize(refusal);
}

Descriptor AttentionGraph::add(Object object) {
  object.finalize();
  objects_.push_back(std::move(object));
  return objects_.back().get();
}

Descriptor AttentionGraph::tensor(std::int64_t id, const Dims& dims, const Dims& strides, DataType type,
                                  bool by_value) {
  Object tensor(kTensor, what_);
  tensor.put_enum(kTensorType, kDataTypeType, type);
  tensor.put(kTensorDimensions, std::span<const std::int64_t>(dims));
  tensor.put(kTensorStrides, std::span<const std::int64_t>(strides));
  tensor.put(kTensorId, id);
  tensor.put(kTensorAlignment, kAlignment);
  if (id >= kFirstVirtual) {
    tensor.put(kTensorVirtual, true);
  } else {
    ids_.push_back(id);
  }
  if (by_value) tensor.put(kTensorByValue, true);
  return add(std::move(tensor));
}

Descriptor AttentionGraph::heads(Id id, const DeviceAttentionShape::Tensor& layout, std::int64_t tokens,
                                 bool transposed) {
  if (transposed)
    return tensor(id, {shape_.batch, shape_.heads, shape_.width, tokens},
                  {layout.batch, layout.head, 1, layout.token}, kBf16);
  return tensor(id, {shape_.batch, shape_.heads, tokens, shape_.width},
                {layout.batch, layout.head, layout.token, 1}, kBf16);
}

Descriptor AttentionGraph::virtual_tensor(const Dims& dims, const Dims& strides, DataType type) {
  return tensor(next_virtual_++, dims, strides, type);
}

Descriptor AttentionGraph::pointwise(PointwiseMode mode, Descriptor x, Descriptor b, Descriptor y) {
  Object pointwise(kPointwise, what_);
  pointwise.put_enum(kPointwiseMode, kPointwiseModeType, mode);
  pointwise.put_enum(kPointwisePrecision, kDataTypeType, kF32);
  Object operation(kPointwiseOperation, what_);
  operation.put(kPointwiseDescriptor, add(std::move(pointwise)));
  operation.put(kPointwiseX, x);
  if (b != nullptr) operation.put(kPointwiseB, b);
  operation.put(kPointwiseY, y);
  operations_.push_back(add(std::move(operation)));
  return y;
}

Descriptor AttentionGraph::matmul(Descriptor a, Descriptor b, Descriptor c) {
  Object matmul(kMatmul, what_);
  matmul.put_enum(kMatmulPrecision, kDataTypeType, kF32);
  Object operation(kMatmulOperation, what_);
  operation.put(kMatmulDescriptor, add(std::move(matmul)));
  operation.put(kMatmulA, a);
  operation.put(kMatmulB, b);
  operation.put(kMatmulC, c);
  operations_.push_back(add(std::move(operation)));
  return c;
}

Descriptor AttentionGraph::reduce(ReductionOperator op, Descriptor x, Descriptor y) {
  Object reduction(kReduction, what_);
  reduction.put_enum(kReductionOperator, kReductionOperatorType, op);
  reduction.put_enum(kReductionPrecision, kDataTypeType, kF32);
  Object operation(kReductionOperation, what_);
  operation.put(kReductionDescriptor, add(std::move(reduction)));
  operation.put(kReductionX, x);
  operation.put(kReductionY, y);
  operations_.push_back(add(std::move(operation)));
  return y;
}

Descriptor AttentionGraph::reshape(Descriptor x, Descriptor y) {
  Object operation(kReshapeOperation, what_);
  operation.put(kReshapeX, x);
  operation.put(kReshapeY, y);
  operations_.push_back(add(std::move(operation)));
  return y;
}

/// In bf16, as the product that reads it wants.
Descriptor AttentionGraph::transposed_scores(Descriptor scores) {
  return reshape(scores, virtual_tensor({dims_[0], dims_[1], dims_[3], dims_[2]},
                                        {strides_[0], strides_[1], strides_[3], strides_[2]}, kBf16));
}

void AttentionGraph::build_forward() {
  const Descriptor q = heads(kQ, shape_.q, shape_.queries), k = heads(kK, shape_.k, shape_.keys, true);
  const Descriptor v = heads(kV, shape_.v, shape_.keys);
  const Descriptor output = heads(kOutput, shape_.output, shape_.queries);
  const Descriptor scale = scalar(kScale), lse = rows(kLse);

  const Descriptor products = matmul(q, k, virtual_scores());
  const Descriptor s = pointwise(kMul, products, scale, virtual_scores());
  const Descriptor largest = reduce(kMaximum, s, virtual_rows());
  const Descriptor below = pointwise(kSub, s, largest, virtual_scores());
  const Descriptor e = pointwise(kExp, below, nullptr, virtual_scores());
  const Descriptor sum = reduce(kSum, e, virtual_rows());
  pointwise(kAdd, largest, pointwise(kLog, sum, nullptr, virtual_rows()), lse);
  matmul(pointwise(kDiv, e, sum, virtual_scores(kBf16)), v, output);
}

void AttentionGraph::build_gradient() {
  const Descriptor q = heads(kQ, shape_.q, shape_.queries), k = heads(kK, shape_.k, shape_.keys, true);
  const Descriptor v = heads(kV, shape_.v, shape_.keys, true);
  const Descriptor output = heads(kOutput, shape_.output, shape_.queries);
  const Descriptor d_output = heads(kDOutput, shape_.d_output, shape_.queries);
  const Descriptor dq = heads(kDq, shape_.dq, shape_.queries), dk = heads(kDk, shape_.dk, shape_.keys);
  const Descriptor dv = heads(kDv, shape_.dv, shape_.keys);
  const Descriptor scale = scalar(kScale), one = scalar(kOne), lse = rows(kLse), row_sums = rows(kRowSums);

  const Dims dims = {shape_.batch, shape_.heads, shape_.queries, shape_.width};
  const Descriptor carried =
      pointwise(kMul, d_output, output, virtual_tensor(dims, dense_strides(dims), kF32));
  pointwise(kMul, reduce(kSum, carried, virtual_rows()), one, row_sums);

  const Descriptor products = matmul(q, k, virtual_scores());
  const Descriptor s = pointwise(kMul, products, scale, virtual_scores());
  const Descriptor below = pointwise(kSub, s, lse, virtual_scores());
  const Descriptor p = pointwise(kExp, below, nullptr, virtual_scores());
  matmul(transposed_scores(p), d_output, dv);

  const Descriptor dp = matmul(d_output, v, virtual_scores());
  const Descriptor centred = pointwise(kSub, dp, row_sums, virtual_scores());
  const Descriptor unscaled = pointwise(kMul, centred, p, virtual_scores());
  const Descriptor ds = pointwise(kMul, unscaled, scale, virtual_scores());
  matmul(transposed_scores(ds), q, dk);

  const DeviceAttentionShape::Tensor& layout = shape_.k;
  const Descriptor keys = reshape(k, virtual_tensor({shape_.batch, shape_.heads, shape_.keys, shape_.width},
                                                    {layout.batch, layout.head, layout.token, 1}, kBf16));
  matmul(ds, keys, dq);
}

}  // namespace rewire::codegen::cudnn
