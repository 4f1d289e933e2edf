// The shape of a kernel's machine code, before any instruction exists: which nodes share a loop over a lane
// axis, and where a value is kept between loops. It is built from the tile IR alone; the emitter (emitter.h)
// walks it.
//
// Each section (prologue, body, epilogue) becomes a tree of loops over lane axes, outermost axis first. A
// loop without inner loops runs over vectors; nodes that lack an axis are outside its loops. A reduction
// closes the loops over its axis: its readers come in later ones. A value that a later loop reads is
// recomputed there if that is cheap (a load of an argument that the kernel does not write, a short pointwise
// chain), and otherwise kept in a slot.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "codegen/tile/tile.h"

namespace rewire::codegen::cpu {

struct Loop;

/// One node, or one loop.
struct Step {
  std::int32_t node = -1;  // index into LoopProgram::nodes
  std::unique_ptr<Loop> loop;
};
using Block = std::vector<Step>;

struct Loop {
  std::int32_t axis = 0;
  bool vector = false;  // over vectors of the axis; its body has no loops
  int unroll = 1;       // vectors in one trip
  Block body;
  std::vector<std::int32_t> reductions;  // nodes inside that reduce over `axis`
};

enum class Home : std::uint8_t {
  direct,     // an SSA value, read where its definition is in scope
  recompute,  // computed again where it is not in scope
  slot        // written to its slot at the definition, read from it where it is not in scope
};

/// The memory of a value: dense over `lanes`, the last lane padded to whole vectors.
struct Slot {
  ir::DType dtype = ir::DType::f32;
  std::vector<std::int32_t> lanes;
  bool packed = false;      // the first lane is padded too: it is filled in square blocks
  bool registers = false;   // an array of vectors indexed by constants: becomes registers
  std::int64_t offset = 0;  // bytes from the start of the scratch memory
};

struct ValuePlan {
  Home home = Home::direct;
  std::int32_t slot = -1;           // where it is read from if home is slot
  std::vector<std::int32_t> sinks;  // slots written at the definition: its own, and carried values'
  std::int32_t node = -1;           // the node that defines it; -1: a carried entry or last
};

/// A carried value whose next version cannot be written in place: slot `from` is copied to slot `to` after
/// each row.
struct SlotCopy {
  std::int32_t from = -1, to = -1;
};

/// An operand of a Dot: the memory of a plain f32 load, or a slot.
struct DotOperand {
  std::int32_t load = -1;  // node
  std::int32_t slot = -1;
};
struct DotPlan {
  DotOperand a, b;
  /// The slot with lanes (contract, vector axis) for an operand that must be transposed.
  std::int32_t packed = -1;
  bool swapped = false;     // the vector axis comes from a
  std::int32_t store = -1;  // the node that alone reads the result: the dot writes to its memory
};

struct LoopProgram {
  tile::Kernel kernel;  // with one axis per reduction, and carried values that nodes of their own define
  std::vector<tile::Node> nodes;  // prologue, body, epilogue in a row
  Block prologue, body, epilogue;
  std::vector<ValuePlan> values;
  std::vector<Slot> slots;
  std::vector<std::int32_t> carried_slots;  // one per kernel.carried
  std::vector<SlotCopy> copies;
  std::vector<DotPlan> dots;                    // by node; meaningful for Dot nodes
  std::vector<tile::TileValue> row_conditions;  // tile/row_condition.h
  std::vector<bool> unrolled;                   // by axis: its vector loops are emitted without a loop
  std::int64_t scratch_bytes = 0;

  std::int64_t extent(std::int32_t axis) const { return kernel.axes[static_cast<std::size_t>(axis)].extent; }
  const tile::ValueInfo& info(tile::TileValue value) const {
    return kernel.values[static_cast<std::size_t>(value.id)];
  }
  const ValuePlan& plan(tile::TileValue value) const { return values[static_cast<std::size_t>(value.id)]; }
  /// Returns the extents of a slot along its lanes, the last one padded.
  std::vector<std::int64_t> slot_extents(const Slot& slot) const;

  int vector_width = 16;
};

/// Builds the loops of a verified kernel. `vector_width`: f32 lanes of a vector.
LoopProgram build_loop_program(const tile::Kernel& kernel, int vector_width);

}  // namespace rewire::codegen::cpu
