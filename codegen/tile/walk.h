// Queries of one node for all readers of tile kernels: its result, its operands, its memory, its lane axes.
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

/// Calls `visit` with each node of the prologue, the body and the epilogue, in order. AnyKernel: Kernel,
/// const or not.
template <class AnyKernel, class Visit>
void visit_nodes(AnyKernel& kernel, Visit visit) {
  for (auto* section : {&kernel.prologue, &kernel.body, &kernel.epilogue}) {
    for (auto& node : *section) visit(node);
  }
}

/// Returns the result; invalid for a Store.
TileValue result_of(const Node& node);
/// Returns the operands in order; a gather's index, a store's predicate and a stream's halves if valid.
std::vector<TileValue> operands_of(const Node& node);
/// Returns the access of a Load, Store or Random; nullptr for others.
const Access* access_of(const Node& node);
/// Returns the word that print() uses: "load", "store", "mul", "sum" ….
std::string_view node_word(const Node& node);

/// Returns the lane axes with a stride != 0, ascending.
std::vector<std::int32_t> access_lanes(const Kernel& kernel, const Access& access);
/// Returns the lane axes that a node runs over, ascending: its result's; a reduction's operand's; a store's
/// value's and access'; for a Dot its result's and the contracted one.
std::vector<std::int32_t> iteration_lanes(const Kernel& kernel, const Node& node);

/// Returns the sorted union of two ascending lists.
std::vector<std::int32_t> lane_union(std::span<const std::int32_t> a, std::span<const std::int32_t> b);
bool contains_lane(std::span<const std::int32_t> lanes, std::int32_t axis);

}  // namespace rewire::codegen::tile
