// The common part of the launches of convolutions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "codegen/program.h"
#include "ir/ops/convolution.h"
#include "runtime/exec/cpu/launches.h"

namespace rewire::runtime {

/// The most bytes that the weight gradients of a batch's parts may take in all.
inline constexpr std::int64_t kPartGradientBytes = std::int64_t{48} << 20;

inline ir::ConvShape conv_shape_of(const codegen::OpCall& call) {
  return ir::conv_shape(call.op.code, call.op.attributes, call.operands[0].shape, call.operands[1].shape);
}

/// Returns true if all that the call reads and writes is f32 and not empty.
inline bool is_of_f32_maps(const codegen::Program& program, const codegen::OpCall& call) {
  const auto fits = [&](const codegen::View& view) {
    return program.buffers[static_cast<std::size_t>(view.buffer)].type.dtype == ir::DType::f32 &&
           ir::element_count(view.shape) > 0;
  };
  return std::ranges::all_of(call.operands, fits) && std::ranges::all_of(call.results, fits);
}

class OverMaps : public CpuLaunch {
 public:
  explicit OverMaps(const codegen::OpCall& call)
      : shape_(conv_shape_of(call)),
        first_(call.operands[0]),
        second_(call.operands[1]),
        result_(call.results[0]) {}

  void bind(const BufferPointers& pointers) override {
    const auto address = [&](const codegen::View& view) {
      return reinterpret_cast<float*>(pointers[static_cast<std::size_t>(view.buffer)]) + view.offset;
    };
    first_at_ = address(first_);
    second_at_ = address(second_);
    result_at_ = address(result_);
  }

 protected:
  const ir::ConvShape shape_;
  const codegen::View first_, second_, result_;
  const float *first_at_ = nullptr, *second_at_ = nullptr;
  float* result_at_ = nullptr;
};

}  // namespace rewire::runtime
