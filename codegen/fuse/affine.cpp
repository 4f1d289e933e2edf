// Affine index expressions over shape ops; see affine.h.
#include "codegen/fuse/affine.h"

#include "ir/error.h"
#include "ir/opcodes.h"

namespace rewire::codegen {
namespace {

using ir::Opcode;
using ir::Shape;

// Splits e, an index below high x low, into (e / low, e % low) if its terms separate. The terms whose
// coefficient is a multiple of `low` make the quotient; the others together must stay below `low`.
bool divide(const Affine& e, std::int64_t low, const Extents& extents, Affine& quotient, Affine& remainder,
            std::optional<AxisSplit>& split) {
  quotient = {e.offset / low, {}};
  remainder = {e.offset % low, {}};
  std::int64_t largest = remainder.offset;
  for (const auto& [axis, coefficient] : e.terms) {
    const std::int64_t extent = extents[static_cast<std::size_t>(axis)];
    if (coefficient % low == 0) {
      quotient.terms[axis] = coefficient / low;
      continue;
    }
    const std::int64_t reach = coefficient * (extent - 1);
    if (reach >= low && low % coefficient == 0 && extent % (low / coefficient) == 0) {
      split = AxisSplit{axis, low / coefficient};
      return false;
    }
    largest += reach;
    remainder.terms[axis] = coefficient;
  }
  return largest < low;
}

std::optional<IndexMap> reshape_map(const Shape& operand_shape, const Shape& result_shape,
                                    const IndexMap& result_map, const Extents& extents,
                                    std::optional<AxisSplit>& split) {
  Affine rest = linear_index(result_map, result_shape);
  IndexMap map(operand_shape.size());
  const Shape strides = ir::row_major_strides(operand_shape);
  for (std::size_t i = 0; i < operand_shape.size(); ++i) {
    if (operand_shape[i] == 1) continue;
    Affine remainder;
    if (!divide(rest, strides[i], extents, map[i], remainder, split)) return std::nullopt;
    rest = remainder;
  }
  return map;
}

}  // namespace

void Affine::add(const Affine& other, std::int64_t scale) {
  if (scale == 0) return;
  offset += other.offset * scale;
  for (const auto& [axis, coefficient] : other.terms) {
    std::int64_t& mine = terms[axis];
    mine += coefficient * scale;
    if (mine == 0) terms.erase(axis);
  }
}

Affine linear_index(const IndexMap& map, const Shape& shape) {
  return strided_index(map, 0, ir::row_major_strides(shape));
}

Affine strided_index(const IndexMap& map, std::int64_t offset, const Shape& strides) {
  Affine sum{offset, {}};
  for (std::size_t i = 0; i < map.size(); ++i) sum.add(map[i], strides[i]);
  return sum;
}

void apply_split(Affine& affine, int axis, std::int64_t low_extent, int low_axis) {
  const auto it = affine.terms.find(axis);
  if (it == affine.terms.end()) return;
  const std::int64_t coefficient = it->second;
  it->second *= low_extent;
  affine.terms[low_axis] = coefficient;  // an insertion may move all terms
}

std::optional<IndexMap> operand_map(const ir::Op& op, const Shape& operand_shape, const Shape& result_shape,
                                    const IndexMap& result_map, const Extents& extents,
                                    std::optional<AxisSplit>& split) {
  split.reset();
  switch (op.code) {
    case Opcode::reshape:
      return reshape_map(operand_shape, result_shape, result_map, extents, split);
    case Opcode::transpose: {
      const ir::Ints& permutation = op.attributes.get_ints("permutation");
      IndexMap map(operand_shape.size());
      for (std::size_t i = 0; i < permutation.size(); ++i) {
        const std::int64_t p = permutation[i];
        map[static_cast<std::size_t>(p < 0 ? p + static_cast<std::int64_t>(permutation.size()) : p)] =
            result_map[i];
      }
      return map;
    }
    case Opcode::broadcast: {
      IndexMap map = result_map;
      for (std::size_t i = 0; i < operand_shape.size(); ++i) {
        if (operand_shape[i] == 1) map[i] = {};
      }
      return map;
    }
    case Opcode::slice: {
      const ir::Ints& starts = op.attributes.get_ints("starts");
      const ir::Ints* strides = nullptr;
      if (op.attributes.has("strides") && !op.attributes.get_ints("strides").empty())
        strides = &op.attributes.get_ints("strides");
      IndexMap map(operand_shape.size());
      for (std::size_t i = 0; i < operand_shape.size(); ++i) {
        map[i].offset = starts[i];
        map[i].add(result_map[i], strides == nullptr ? 1 : (*strides)[i]);
      }
      return map;
    }
    default:
      return result_map;
  }
}

}  // namespace rewire::codegen
