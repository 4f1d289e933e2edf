// What every reader of tile kernels asks of a node: its result, its operands, the memory it touches, the lane
// axes it runs over.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "codegen/tile/tile.h"

namespace rewire::codegen::tile {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

/// Invalid for a Store.
TileValue result_of(const Node& node);
/// In order; a gather's index, a store's predicate and the halves of a stream included when valid.
std::vector<TileValue> operands_of(const Node& node);
/// Load, Store and Random have one.
const Access* access_of(const Node& node);
/// "load", "store", "mul", "sum" …: the word print() uses.
std::string_view node_word(const Node& node);

/// Lane axes with a stride != 0, ascending.
std::vector<std::int32_t> access_lanes(const Kernel& kernel, const Access& access);
/// The lane axes a node runs over, ascending: those of its result, of a reduction's operand, of a store's
/// value and access, and for a Dot those of the result and the contracted one.
std::vector<std::int32_t> iteration_lanes(const Kernel& kernel, const Node& node);

/// Sorted union of two ascending lists.
std::vector<std::int32_t> lane_union(std::span<const std::int32_t> a, std::span<const std::int32_t> b);
bool contains_lane(std::span<const std::int32_t> lanes, std::int32_t axis);

}  // namespace rewire::codegen::tile
