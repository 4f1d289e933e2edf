// scatter_add of rows in f32, such as the gradient of an embedding table: y = base, then y[index[j]] += u[j]
// in the order of j. The base may be y's own memory. A task has a range of y's rows. It looks through all indices and adds the updates that
// are its own, so a sum's order depends on neither threads nor the cut.
#include <algorithm>
#include <cstdint>

#include "ir/opcodes.h"
#include "ir/ops/axes.h"
#include "runtime/exec/cpu/op_calls.h"

namespace rewire::runtime {

extern const CpuOp kCpuScatterByI32, kCpuScatterByI64;

namespace {

constexpr std::int64_t kMostScatterTasks = 64;

ir::DType dtype_of(const codegen::Program& program, const codegen::View& view) {
  return program.buffers[static_cast<std::size_t>(view.buffer)].type.dtype;
}

template <class Index>
class CpuScatter final : public CpuLaunch {
 public:
  explicit CpuScatter(const codegen::OpCall& call)
      : base_(call.operands[0]), index_(call.operands[1]), updates_(call.operands[2]), to_(call.results[0]) {
    const std::int64_t axis = call.op.attributes.get_int("axis");
    view_ = ir::view_around(to_.shape, ir::normal_axis(axis, static_cast<int>(to_.shape.size())));
    lists_ = index_.shape.size() == 1 ? 1 : view_.outer;
    count_ = index_.shape.back();
    grain_ = (view_.extent + kMostScatterTasks - 1) / kMostScatterTasks;
    parts_ = (view_.extent + grain_ - 1) / grain_;
    for (std::size_t d = 0; d < base_.shape.size(); ++d)
      repeats_ = repeats_ && (base_.shape[d] == 1 || base_.strides[d] == 0);
  }
  std::int64_t tasks() const override { return view_.outer * parts_; }
  std::int64_t scratch_bytes() const override { return 0; }
  void bind(const BufferPointers& buffers) override {
    base_at_ = at<const float>(buffers, base_);
    updates_at_ = at<const float>(buffers, updates_);
    index_at_ = at<const Index>(buffers, index_);
    to_at_ = at<float>(buffers, to_);
  }

  void run(std::int64_t task, void*) const override {
    const std::int64_t outer = task / parts_, first = task % parts_ * grain_;
    const std::int64_t end = std::min(first + grain_, view_.extent), width = view_.inner;
    float* rows = to_at_ + outer * view_.extent * width;
    const bool is_there = base_ == to_;
    if (!is_there && repeats_) {
      std::fill(rows + first * width, rows + end * width, *base_at_);
    } else if (!is_there) {
      const float* from = base_at_ + outer * view_.extent * width;
      std::copy(from + first * width, from + end * width, rows + first * width);
    }
    const float* updates = updates_at_ + outer * count_ * width;
    for (std::int64_t j = 0; j < count_; ++j) {
      const std::int64_t index = index_at_[(lists_ == 1 ? 0 : outer * count_) + j];
      const std::int64_t row = std::clamp<std::int64_t>(index, 0, view_.extent - 1);
      if (row < first || row >= end) continue;
      float* to = rows + row * width;
      const float* update = updates + j * width;
      for (std::int64_t i = 0; i < width; ++i) to[i] += update[i];
    }
  }

 private:
  template <class T>
  static T* at(const BufferPointers& buffers, const codegen::View& view) {
    return reinterpret_cast<T*>(buffers[static_cast<std::size_t>(view.buffer)]) + view.offset;
  }

  codegen::View base_, index_, updates_, to_;
  bool repeats_ = true;  // one number for all of y
  ir::AxisView view_;
  std::int64_t lists_ = 1, count_ = 0, grain_ = 1, parts_ = 1;
  const float *base_at_ = nullptr, *updates_at_ = nullptr;
  const Index* index_at_ = nullptr;
  float* to_at_ = nullptr;
};

template <ir::DType index>
bool takes_rows(const codegen::Program& program, const codegen::OpCall& call) {
  return dtype_of(program, call.operands[0]) == ir::DType::f32 &&
         dtype_of(program, call.operands[1]) == index;
}

template <class Index>
std::unique_ptr<CpuLaunch> make_scatter(const codegen::OpCall& call) {
  return std::make_unique<CpuScatter<Index>>(call);
}

}  // namespace

const CpuOp kCpuScatterByI32{ir::Opcode::scatter_add, takes_rows<ir::DType::i32>, make_scatter<std::int32_t>};
const CpuOp kCpuScatterByI64{ir::Opcode::scatter_add, takes_rows<ir::DType::i64>, make_scatter<std::int64_t>};

}  // namespace rewire::runtime
