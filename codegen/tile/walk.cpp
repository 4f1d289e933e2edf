// Questions about one node, answered by its kind.
#include "codegen/tile/walk.h"

#include <algorithm>
#include <iterator>

namespace rewire::codegen::tile {

TileValue result_of(const Node& node) {
  return std::visit(
      Overloaded{[](const Store&) { return TileValue{}; }, [](const auto& other) { return other.result; }},
      node);
}

std::vector<TileValue> operands_of(const Node& node) {
  std::vector<TileValue> operands = std::visit(
      Overloaded{[](const Load& n) { return std::vector{n.index}; },
                 [](const Store& n) { return std::vector{n.value, n.predicate}; },
                 [](const Pointwise& n) { return n.operands; },
                 [](const Constant&) { return std::vector<TileValue>{}; },
                 [](const Index&) { return std::vector<TileValue>{}; },
                 [](const Reduce& n) { return std::vector{n.operand}; },
                 [](const Dot& n) { return std::vector{n.a, n.b}; },
                 [](const Random& n) { return std::vector{n.seed, n.step, n.stream_low, n.stream_high}; }},
      node);
  if (access_of(node) != nullptr) std::erase_if(operands, [](TileValue value) { return !value; });
  return operands;
}

const Access* access_of(const Node& node) {
  return std::visit(
      Overloaded{[](const Load& n) { return &n.access; }, [](const Store& n) { return &n.access; },
                 [](const Random& n) { return &n.element; },
                 [](const auto&) -> const Access* { return nullptr; }},
      node);
}

std::string_view node_word(const Node& node) {
  return std::visit(
      Overloaded{
          [](const Load& n) { return n.index ? std::string_view("gather") : std::string_view("load"); },
          [](const Store&) { return std::string_view("store"); },
          [](const Pointwise& n) { return ir::opcode_name(n.code); },
          [](const Constant&) { return std::string_view("constant"); },
          [](const Index&) { return std::string_view("index"); },
          [](const Reduce& n) {
            return n.kind == ReduceKind::sum ? std::string_view("sum") : std::string_view("max");
          },
          [](const Dot&) { return std::string_view("dot"); },
          [](const Random& n) {
            return n.normal ? std::string_view("normal") : std::string_view("uniform");
          }},
      node);
}

std::vector<std::int32_t> access_lanes(const Kernel& kernel, const Access& access) {
  std::vector<std::int32_t> lanes;
  for (std::size_t axis = 0; axis < kernel.axes.size(); ++axis) {
    if (kernel.axes[axis].use == AxisUse::lane && access.strides[axis] != 0) {
      lanes.push_back(static_cast<std::int32_t>(axis));
    }
  }
  return lanes;
}

std::vector<std::int32_t> iteration_lanes(const Kernel& kernel, const Node& node) {
  const auto lanes_of = [&](TileValue value) -> const std::vector<std::int32_t>& {
    return kernel.values[static_cast<std::size_t>(value.id)].lanes;
  };
  return std::visit(
      Overloaded{
          [&](const Store& n) { return lane_union(lanes_of(n.value), access_lanes(kernel, n.access)); },
          [&](const Reduce& n) { return lanes_of(n.operand); },
          [&](const Dot& n) { return lane_union(lanes_of(n.result), std::vector{n.contract}); },
          [&](const auto& n) { return lanes_of(n.result); }},
      node);
}

std::vector<std::int32_t> lane_union(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  std::vector<std::int32_t> both;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

bool contains_lane(std::span<const std::int32_t> lanes, std::int32_t axis) {
  return std::find(lanes.begin(), lanes.end(), axis) != lanes.end();
}

}  // namespace rewire::codegen::tile
