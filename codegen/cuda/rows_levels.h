// Orders the nodes of a row kernel (rows_plan.h) into levels, and says where each value is kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/tile/tile.h"

namespace rewire::codegen::cuda {

/// The memory layout of an access along the lanes.
enum class LanePattern : std::uint8_t {
  scalar,      // the access has no lanes
  contiguous,  // the lanes are neighbours in memory
  general      // any other layout: accessed element by element
};
LanePattern lane_pattern(const tile::Kernel& kernel, const tile::Access& access);

enum class SectionId : std::uint8_t { prologue, body, epilogue };

/// A section is split into levels, which run one after another. What needs the result of a reduction is at
/// a later level than the reduction. A level has four parts, in this order: scalars, loads of whole rows,
/// one loop over a thread's elements, stores of whole rows.
struct LeveledNode {
  const tile::Node* node = nullptr;
  int level = 0;
};
struct Section {
  std::vector<LeveledNode> nodes;
  int levels = 0;
};

/// Where a value is kept.
struct ValueHome {
  bool lane = false;     // the value has lanes
  bool array = false;    // in a register for each of the thread's elements, after its loop too
  bool again = false;    // index arithmetic: recomputed in every loop that reads it
  bool inlined = false;  // written into the expression of its only reader
  SectionId section = SectionId::prologue;
  int level = 0;  // the first level at which it is available
  int uses = 0;   // the number of operands that read it
};

/// How a carried value changes with each row. It is additive if next = entry + added, or next = max(entry,
/// added). Several groups may then share the rows.
struct CarriedPlan {
  std::optional<tile::ReduceKind> additive;  // nullopt: it is not additive
  const tile::Node* next = nullptr;          // if additive: the node that computes next
  tile::TileValue added;
};

struct RowLevels {
  Section prologue, body, epilogue;
  std::vector<ValueHome> homes;  // by value id
  std::vector<CarriedPlan> carried;

  const ValueHome& home(tile::TileValue value) const { return homes[static_cast<std::size_t>(value.id)]; }
  ValueHome& home(tile::TileValue value) { return homes[static_cast<std::size_t>(value.id)]; }
  std::array<std::pair<SectionId, const Section*>, 3> sections() const {
    return {{{SectionId::prologue, &prologue}, {SectionId::body, &body}, {SectionId::epilogue, &epilogue}}};
  }
  /// Returns whether all carried values are additive.
  bool adds_up() const;
};

/// Returns whether a kernel has the form of rows: every reduction runs over all lanes, and there are no dots.
bool is_row_kernel(const tile::Kernel& kernel);
/// Returns the levels of a row kernel. The homes have section, level, lane and uses.
RowLevels row_levels(const tile::Kernel& kernel);
/// Sets the homes' array, again and inlined.
void choose_homes(const tile::Kernel& kernel, RowLevels& levels);
/// Moves each load of a scalar to the level that first reads it. Until then it would take a register of
/// every thread.
void sink_scalar_loads(const tile::Kernel& kernel, RowLevels& levels);

}  // namespace rewire::codegen::cuda
