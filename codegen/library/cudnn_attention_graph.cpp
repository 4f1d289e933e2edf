#include "codegen/library/cudnn_attention_graph.h"

#include <utility>

namespace rewire::codegen::cudnn {
namespace {

Dims dense_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (std::size_t d = dims.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * dims[d + 1];
  return strides;
}

class AttentionBuilder {
 public:
  AttentionBuilder(const DeviceAttentionShape& shape, const std::string& what)
      : shape_(shape),
        what_(what),
        dims_{shape.batch, shape.heads, shape.queries, shape.keys},
        strides_(dense_strides(dims_)),
        row_dims_{shape.batch, shape.heads, shape.queries, 1},
        row_strides_(dense_strides(row_dims_)),
        graph_(what) {}

  Graph build() && {
    shape_.gradient ? build_gradient() : build_forward();
    return std::move(graph_);
  }

 private:
  void build_forward();
  void build_gradient();
  Descriptor tensor(std::int64_t id, const Dims& dims, const Dims& strides, DataType type,
                    bool by_value = false) {
    return graph_.tensor({.id = id,
                          .dims = dims,
                          .strides = strides,
                          .type = type,
                          .is_virtual = id >= kFirstVirtual,
                          .by_value = by_value});
  }
  /// Adds a tensor of heads with `tokens` tokens each. `transposed`: channels are the rows.
  Descriptor heads(Id id, const DeviceAttentionShape::Tensor& layout, std::int64_t tokens,
                   bool transposed = false);
  Descriptor scalar(Id id) { return tensor(id, {1, 1, 1, 1}, {1, 1, 1, 1}, kF32, true); }
  Descriptor rows(Id id) { return tensor(id, row_dims_, row_strides_, kF32); }
  Descriptor virtual_tensor(const Dims& dims, const Dims& strides, DataType type) {
    return tensor(next_virtual_++, dims, strides, type);
  }
  Descriptor virtual_scores(DataType type = kF32) { return virtual_tensor(dims_, strides_, type); }
  Descriptor virtual_rows() { return virtual_tensor(row_dims_, row_strides_, kF32); }
  /// Adds y = mode(x), or y = mode(x, b) if b is not null; returns y.
  Descriptor pointwise(PointwiseMode mode, Descriptor x, Descriptor b, Descriptor y);
  Descriptor matmul(Descriptor a, Descriptor b, Descriptor c);
  Descriptor reduce(ReductionOperator op, Descriptor x, Descriptor y);
  Descriptor reshape(Descriptor x, Descriptor y);
  /// Adds the transposed scores, in bf16 as the product that reads them needs.
  Descriptor transposed_scores(Descriptor scores);

  const DeviceAttentionShape& shape_;
  const std::string& what_;
  Dims dims_, strides_;          // of the scores, [batch, heads, queries, keys]
  Dims row_dims_, row_strides_;  // [batch, heads, queries, 1]
  std::int64_t next_virtual_ = kFirstVirtual;
  Graph graph_;
};

Descriptor AttentionBuilder::heads(Id id, const DeviceAttentionShape::Tensor& layout, std::int64_t tokens,
                                   bool transposed) {
  if (transposed)
    return tensor(id, {shape_.batch, shape_.heads, shape_.width, tokens},
                  {layout.batch, layout.head, 1, layout.token}, kBf16);
  return tensor(id, {shape_.batch, shape_.heads, tokens, shape_.width},
                {layout.batch, layout.head, layout.token, 1}, kBf16);
}

Descriptor AttentionBuilder::pointwise(PointwiseMode mode, Descriptor x, Descriptor b, Descriptor y) {
  Object pointwise(kPointwise, what_);
  pointwise.put_enum(kPointwiseMode, kPointwiseModeType, mode);
  pointwise.put_enum(kPointwisePrecision, kDataTypeType, kF32);
  Object operation(kPointwiseOperation, what_);
  operation.put(kPointwiseDescriptor, graph_.add(std::move(pointwise)));
  operation.put(kPointwiseX, x);
  if (b != nullptr) operation.put(kPointwiseB, b);
  operation.put(kPointwiseY, y);
  graph_.operation(std::move(operation));
  return y;
}

Descriptor AttentionBuilder::matmul(Descriptor a, Descriptor b, Descriptor c) {
  Object matmul(kMatmul, what_);
  matmul.put_enum(kMatmulPrecision, kDataTypeType, kF32);
  Object operation(kMatmulOperation, what_);
  operation.put(kMatmulDescriptor, graph_.add(std::move(matmul)));
  operation.put(kMatmulA, a);
  operation.put(kMatmulB, b);
  operation.put(kMatmulC, c);
  graph_.operation(std::move(operation));
  return c;
}

Descriptor AttentionBuilder::reduce(ReductionOperator op, Descriptor x, Descriptor y) {
  Object reduction(kReduction, what_);
  reduction.put_enum(kReductionOperator, kReductionOperatorType, op);
  reduction.put_enum(kReductionPrecision, kDataTypeType, kF32);
  Object operation(kReductionOperation, what_);
  operation.put(kReductionDescriptor, graph_.add(std::move(reduction)));
  operation.put(kReductionX, x);
  operation.put(kReductionY, y);
  graph_.operation(std::move(operation));
  return y;
}

Descriptor AttentionBuilder::reshape(Descriptor x, Descriptor y) {
  Object operation(kReshapeOperation, what_);
  operation.put(kReshapeX, x);
  operation.put(kReshapeY, y);
  graph_.operation(std::move(operation));
  return y;
}

Descriptor AttentionBuilder::transposed_scores(Descriptor scores) {
  return reshape(scores, virtual_tensor({dims_[0], dims_[1], dims_[3], dims_[2]},
                                        {strides_[0], strides_[1], strides_[3], strides_[2]}, kBf16));
}

void AttentionBuilder::build_forward() {
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

void AttentionBuilder::build_gradient() {
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

}  // namespace

Graph attention_graph(const DeviceAttentionShape& shape, const std::string& what) {
  return AttentionBuilder(shape, what).build();
}

}  // namespace rewire::codegen::cudnn
