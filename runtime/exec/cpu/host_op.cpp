#include "runtime/exec/cpu/host_op.h"

#include <algorithm>

#include "ir/ops/op_info.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {
namespace {

using codegen::View;

ir::TensorType type_of(const codegen::Program& program, const View& view) {
  return {program.buffers[static_cast<std::size_t>(view.buffer)].type.dtype, view.shape};
}

/// Calls visit(dense index, byte address) for every element of a view.
template <class Visit>
void each(const BufferPointers& buffers, const View& view, ir::DType dtype, Visit visit) {
  std::byte* const base = buffers[static_cast<std::size_t>(view.buffer)];
  const std::int64_t count = ir::element_count(view.shape);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, offset = view.offset;
    for (std::size_t d = view.shape.size(); d-- > 0;) {
      offset += rest % view.shape[d] * view.strides[d];
      rest /= view.shape[d];
    }
    visit(i, base + offset * static_cast<std::int64_t>(ir::dtype_bytes(dtype)));
  }
}

ir::Tensor gather(const BufferPointers& buffers, const View& view, const ir::TensorType& type) {
  HostTensor dense(type);
  const std::size_t size = ir::dtype_bytes(type.dtype);
  each(buffers, view, type.dtype, [&](std::int64_t i, const std::byte* element) {
    std::copy_n(element, size, dense.bytes().data() + static_cast<std::size_t>(i) * size);
  });
  return to_double(dense);
}

void scatter(const BufferPointers& buffers, const View& view, const ir::Tensor& tensor) {
  const HostTensor dense = to_host(tensor);
  const std::size_t size = ir::dtype_bytes(tensor.type.dtype);
  each(buffers, view, tensor.type.dtype, [&](std::int64_t i, std::byte* element) {
    std::copy_n(dense.bytes().data() + static_cast<std::size_t>(i) * size, size, element);
  });
}

}  // namespace

HostOp::HostOp(const codegen::Program& program, const codegen::OpCall& call) : call_(call) {
  for (const View& view : call.operands) operand_types_.push_back(type_of(program, view));
  for (const View& view : call.results) result_types_.push_back(type_of(program, view));
}

void HostOp::run(const BufferPointers& buffers) const {
  std::vector<ir::Tensor> operands, results;
  for (std::size_t i = 0; i < operand_types_.size(); ++i)
    operands.push_back(gather(buffers, call_.operands[i], operand_types_[i]));
  for (const ir::TensorType& result : result_types_) results.emplace_back(result);
  std::vector<const ir::Tensor*> inputs;
  for (const ir::Tensor& operand : operands) inputs.push_back(&operand);
  ir::EvalState state;
  ir::EvalContext context{call_.op, std::move(inputs), results, state};
  ir::op_info(call_.op.code).evaluate(context);
  for (std::size_t i = 0; i < results.size(); ++i) scatter(buffers, call_.results[i], results[i]);
}

}  // namespace rewire::runtime
