// Products of f32 in a block kernel; see blocks_dot.h.
#include "codegen/cuda/blocks_dot.h"

#include "ir/error.h"

namespace rewire::codegen::cuda {
namespace {

using tile::TileValue;
using Lanes = std::vector<std::int32_t>;

struct DotOperand {
  std::string pointer;
  std::int64_t contract = 0, other = 0;  // strides
};

[[noreturn]] void unsupported(TileValue value, const KernelText& text) {
  internal_error("tile kernel {}: %{} cannot be an operand of a dot in CUDA", text.kernel().name, value.id);
}

DotOperand dot_operand(TileValue value, std::int32_t contract, const BlockPlan& plan,
                       const KernelText& text) {
  const BlockValue& own = plan.value(value);
  const Lanes& lanes = text.info(value).lanes;
  if (own.home != BlockHome::shared) {
    const auto& load = std::get<tile::Load>(*own.node);
    const auto stride = [&](std::int32_t lane) {
      return load.access.strides[static_cast<std::size_t>(lane)];
    };
    if (lanes.size() != 2) unsupported(value, text);
    return {text.pointer(load.access), stride(contract), stride(lanes[0] == contract ? lanes[1] : lanes[0])};
  }
  const SharedArray& array = plan.array_of(value);
  if (lanes.back() == contract) return {text.name(value), 1, array.pitch};
  if (lanes.front() != contract) unsupported(value, text);
  std::int64_t below = array.pitch;
  for (std::size_t i = 1; i + 1 < lanes.size(); ++i) below *= text.axis(lanes[i]).extent;
  return {text.name(value), below, 1};
}

}  // namespace

void write_dot(const tile::Dot& dot, const BlockPlan& plan, const KernelText& text, Lines& lines) {
  const Lanes& lanes = text.info(dot.result).lanes;
  const Lanes& right = text.info(dot.b).lanes;
  const std::int32_t column = right[0] == dot.contract ? right[1] : right[0];
  const SharedArray& c = plan.array_of(dot.result);
  const std::int64_t columns = text.axis(column).extent;
  const std::int64_t rows = extent_of(text.kernel(), lanes) / columns;
  if (lanes.back() != column && lanes.front() != column) unsupported(dot.result, text);
  const bool last = lanes.back() == column;
  if (!last && lanes.size() != 2) unsupported(dot.result, text);
  const DotOperand a = dot_operand(dot.a, dot.contract, plan, text);
  const DotOperand b = dot_operand(dot.b, dot.contract, plan, text);
  lines.line("// {} = sum over {} of {} {}", text.name(dot.result), text.axis(dot.contract).name,
             text.name(dot.a), text.name(dot.b));
  lines.line("dot<{}, {}, {}, {}, Strides<{}, {}>, Strides<{}, {}>, Strides<{}, {}>>({}, {}, {});", rows,
             columns, text.axis(dot.contract).extent, plan.threads, a.other, a.contract, b.contract, b.other,
             last ? c.pitch : 1, last ? 1 : c.pitch, text.name(dot.result), a.pointer, b.pointer);
}

}  // namespace rewire::codegen::cuda
