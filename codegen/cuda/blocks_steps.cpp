// Steps of a block kernel; see blocks_steps.h.
#include "codegen/cuda/blocks_steps.h"

#include <algorithm>
#include <map>

#include "codegen/cuda/kernel_text.h"
#include "codegen/tile/walk.h"

namespace rewire::codegen::cuda {
namespace {

using tile::Kernel;
using tile::Node;
using tile::TileValue;
using Lanes = std::vector<std::int32_t>;

constexpr std::int64_t kTileRegisters = 144;  // registers per thread for the elements of products

/// Returns the one of a value's two lanes that is not `lane`.
std::int32_t other_lane_of(const Kernel& kernel, TileValue of, std::int32_t lane) {
  const Lanes& lanes = kernel.values[static_cast<std::size_t>(of.id)].lanes;
  return lanes[0] == lane ? lanes[1] : lanes[0];
}

template <class Wanted>
std::vector<const tile::Dot*> dots_where(const BlockStep& step, Wanted wanted) {
  std::vector<const tile::Dot*> dots;
  for (const Node* node : step.nodes) {
    const auto* dot = std::get_if<tile::Dot>(node);
    if (dot != nullptr && wanted(*dot)) dots.push_back(dot);
  }
  return dots;
}

class BlockStepper {
 public:
  BlockStepper(const Kernel& kernel, const std::vector<BlockValue>& values,
               const std::set<std::int32_t>& staged, const std::set<std::int32_t>& narrow)
      : kernel_(kernel), values_(values), staged_(staged), narrow_(narrow), known_at_(values.size(), -1) {}

  BlockSteps steps() {
    walk_section(kernel_.prologue);
    const int body = section_begin_ = static_cast<int>(steps_.size());
    for (const tile::Carried& carried : kernel_.carried) known_at(carried.entry) = section_begin_ - 1;
    walk_section(kernel_.body);
    section_begin_ = static_cast<int>(steps_.size());
    for (const tile::Carried& carried : kernel_.carried) known_at(carried.last) = section_begin_ - 1;
    const int body_end = section_begin_ - 1;
    walk_section(kernel_.epilogue);
    return {std::move(steps_), std::move(known_at_), body, body_end};
  }

 private:
  const tile::ValueInfo& info(TileValue value) const {
    return kernel_.values[static_cast<std::size_t>(value.id)];
  }
  const BlockValue& value(TileValue of) const { return values_[static_cast<std::size_t>(of.id)]; }
  int& known_at(TileValue of) { return known_at_[static_cast<std::size_t>(of.id)]; }
  bool on_tensor_cores(const tile::Dot& dot) const {
    return narrow_.contains(dot.a.id) && narrow_.contains(dot.b.id);
  }

  bool has_step(const Node& node) const {
    const TileValue result = tile::result_of(node);
    if (!result) return true;
    const BlockHome home = value(result).home;
    return home != BlockHome::immediate && home != BlockHome::again;
  }

  void walk_section(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      if (is_deferred(node)) {
        deferred_.insert(tile::result_of(node).id);
        continue;
      }
      for (TileValue operand : tile::operands_of(node)) place_deferred(operand);
      const TileValue result = tile::result_of(node);
      if (!has_step(node)) {
        known_at(result) = ready(node, BlockStep{});
        continue;
      }
      const int chained = chain(node);
      const int index = chained >= 0 ? chained : place(node);
      steps_[static_cast<std::size_t>(index)].nodes.push_back(&node);
      if (result) known_at(result) = index;
      if (const tile::Access* access = tile::access_of(node); access != nullptr) touch(node, *access, index);
    }
  }

  int place(const Node& node) {
    const BlockStep step = step_of(node);
    return join(step, node, std::max({ready(node, step), section_begin_, ordered(node)}));
  }

  /// Returns the step to which a product can be chained. It computes the product's left operand, the product
  /// sums over its columns, and registers hold the sums. -1: there is none.
  int chain(const Node& node) {
    const auto* dot = std::get_if<tile::Dot>(&node);
    if (dot == nullptr || !on_tensor_cores(*dot)) return -1;
    const int at = known_at(dot->a);
    if (at < section_begin_ || known_at(dot->b) >= at) return -1;
    const BlockStep& step = steps_[static_cast<std::size_t>(at)];
    if (step.kind != StepKind::tensor_dot || step.column != dot->contract ||
        step.row != other_lane(dot->a, dot->contract))
      return -1;
    BlockStep longer = step;
    longer.nodes.push_back(&node);
    return fits(longer, longer.whole_rows) ? at : -1;
  }

  /// Returns whether a load is placed just before its first reader. This holds for operands that a dot keeps
  /// in shared memory: by then, values that were read earlier may have freed their place.
  bool is_deferred(const Node& node) const {
    const auto* load = std::get_if<tile::Load>(&node);
    return load != nullptr && !load->index && staged_.contains(load->result.id) &&
           !narrow_.contains(load->result.id) && value(load->result).home == BlockHome::local &&
           is_read_only(kernel_, load->access);
  }

  void place_deferred(TileValue operand) {
    const BlockValue& source = value(operand);
    if (source.home == BlockHome::again) {
      for (TileValue inner : tile::operands_of(*source.node)) place_deferred(inner);
    }
    if (deferred_.erase(operand.id) == 0) return;
    const BlockStep step = step_of(*source.node);
    const int index = join(step, *source.node, std::max(section_begin_, static_cast<int>(steps_.size()) - 1));
    steps_[static_cast<std::size_t>(index)].nodes.push_back(source.node);
    known_at(operand) = index;
  }

  BlockStep step_of(const Node& node) const {
    BlockStep step;
    step.lanes = tile::iteration_lanes(kernel_, node);
    step.kind = step.lanes.empty() ? StepKind::scalars : StepKind::loop;
    if (const auto* reduce = std::get_if<tile::Reduce>(&node)) {
      step = {StepKind::reduce,
              info(reduce->result).lanes,
              reduce->axes,
              reduce->kind == tile::ReduceKind::sum,
              {}};
    } else if (const auto* dot = std::get_if<tile::Dot>(&node)) {
      step.kind = StepKind::dot;
      if (on_tensor_cores(*dot)) {
        step.kind = StepKind::tensor_dot;
        step.lanes = info(dot->result).lanes;
        step.row = other_lane(dot->a, dot->contract);
        step.column = column_of(kernel_, *dot);
      }
    }
    return step;
  }

  std::int32_t other_lane(TileValue of, std::int32_t lane) const { return other_lane_of(kernel_, of, lane); }
  std::int64_t extent(std::int32_t axis) const { return kernel_.axes[static_cast<std::size_t>(axis)].extent; }

  /// Returns the first step in which all operands are known.
  int ready(const Node& node, const BlockStep& step) {
    int first = 0;
    for (TileValue operand : tile::operands_of(node)) first = std::max(first, ready_after(operand, step));
    return first;
  }

  /// Returns the operand's own step if the reader can run in it: both run point by point over the same
  /// lanes, both run on every thread, or the reader needs only product elements that its own thread holds.
  /// Otherwise returns the step after it.
  int ready_after(TileValue operand, const BlockStep& reader) {
    const BlockValue& source = value(operand);
    if (source.home == BlockHome::immediate) return 0;
    if (source.home == BlockHome::again) return ready(*source.node, reader);
    const int at = known_at(operand);
    if (at < 0 || source.node == nullptr) return std::max(at + 1, 0);
    const BlockStep& step = steps_[static_cast<std::size_t>(at)];
    const bool together = (step.kind == StepKind::loop && reader.kind == StepKind::loop &&
                           step.lanes == reader.lanes && !reader.lanes.empty()) ||
                          (step.kind == StepKind::scalars && reader.kind == StepKind::scalars) ||
                          runs_within(reader, step);
    return together ? at : at + 1;
  }

  bool runs_within(const BlockStep& step, const BlockStep& product) const {
    if (product.kind != StepKind::tensor_dot) return false;
    if (step.kind == StepKind::loop) return step.lanes == product.lanes || follows_chain(step.lanes, product);
    if (step.kind == StepKind::reduce && step.adds && step.reduced == Lanes{product.row} &&
        step.lanes.size() == 1) {
      const Lanes all = tile::lane_union(step.lanes, step.reduced);
      return all == product.lanes || follows_chain(all, product);
    }
    return step.kind == StepKind::reduce && step.reduced == Lanes{product.column} &&
           step.lanes == Lanes{product.row} && fits(product, true);
  }
  bool follows_chain(const Lanes& lanes, const BlockStep& product) const {
    return std::ranges::any_of(chained_of(product),
                               [&](const tile::Dot* dot) { return info(dot->result).lanes == lanes; });
  }

  /// Returns whether registers hold a tile of the step's products, and the sums of the products chained to
  /// them.
  bool fits(const BlockStep& product, bool whole_rows) const {
    const std::int64_t width = whole_rows ? parts_of(extent(product.column), 8) : 2;
    const std::int64_t dots = std::ssize(dots_of(product)),
                       sums = product_facts(kernel_, product).chained_registers();
    if (sums == 0) return dots * 4 * width <= kTileRegisters;
    const std::int64_t tiles = whole_rows ? dots : std::max<std::int64_t>(dots, 2);  // one may still join
    return tiles * 4 * width + sums <= kChainRegisters;
  }

  int join(const BlockStep& step, const Node& node, int first) {
    for (int i = first; i < static_cast<int>(steps_.size()); ++i) {
      BlockStep& other = steps_[static_cast<std::size_t>(i)];
      if (other.kind == StepKind::tensor_dot && step.kind == StepKind::tensor_dot) {
        BlockStep longer = other;
        longer.nodes.push_back(&node);
        if (other.row == step.row && other.column == step.column && fits(longer, other.whole_rows)) return i;
      } else if (runs_within(step, other)) {
        if (!reads_of(node, i)) continue;
        other.whole_rows = other.whole_rows || step.reduced == Lanes{other.column};
        return i;
      } else if (step.kind != StepKind::dot && other.kind == step.kind && other.lanes == step.lanes &&
                 other.reduced == step.reduced) {
        return i;
      }
    }
    steps_.push_back(step);
    return static_cast<int>(steps_.size()) - 1;
  }

  /// Returns whether a node reads a value that the step computes.
  bool reads_of(const Node& node, int step) {
    const auto operands = tile::operands_of(node);
    return std::any_of(operands.begin(), operands.end(), [&](TileValue operand) {
      const BlockValue& source = value(operand);
      if (source.home == BlockHome::again) return reads_of(*source.node, step);
      return source.node != nullptr && known_at(operand) == step;
    });
  }

  /// Keeps the order of accesses to an argument that is read and written: returns the step after its last
  /// access.
  int ordered(const Node& node) {
    const tile::Access* access = tile::access_of(node);
    if (access == nullptr || std::holds_alternative<tile::Random>(node)) return 0;
    if (kernel_.arguments[static_cast<std::size_t>(access->argument)].use != tile::ArgumentUse::read_write)
      return 0;
    const auto before = touched_.find(access->argument);
    return before == touched_.end() ? 0 : before->second + 1;
  }

  void touch(const Node& node, const tile::Access& access, int step) {
    if (!std::holds_alternative<tile::Random>(node)) touched_[access.argument] = step;
  }

  const Kernel& kernel_;
  const std::vector<BlockValue>& values_;
  const std::set<std::int32_t>& staged_;
  const std::set<std::int32_t>& narrow_;
  std::vector<BlockStep> steps_;
  std::vector<int> known_at_;
  std::set<std::int32_t> deferred_;
  std::map<std::int32_t, int> touched_;  // by argument: the last step that read or wrote it
  int section_begin_ = 0;
};

}  // namespace

BlockSteps block_steps(const Kernel& kernel, const std::vector<BlockValue>& values,
                       const std::set<std::int32_t>& staged, const std::set<std::int32_t>& narrow) {
  return BlockStepper(kernel, values, staged, narrow).steps();
}

std::vector<const tile::Dot*> dots_of(const BlockStep& step) {
  return dots_where(step, [&](const tile::Dot& dot) { return dot.contract != step.column; });
}

std::vector<const tile::Dot*> chained_of(const BlockStep& step) {
  return dots_where(step, [&](const tile::Dot& dot) { return dot.contract == step.column; });
}

bool adds_rows(const BlockStep& step, const tile::Node& node) {
  const auto* reduce = std::get_if<tile::Reduce>(&node);
  return step.kind == StepKind::tensor_dot && reduce != nullptr && reduce->axes == Lanes{step.row};
}

std::int32_t column_of(const Kernel& kernel, const tile::Dot& dot) {
  return other_lane_of(kernel, dot.b, dot.contract);
}

std::int64_t ProductFacts::chained_registers() const {
  std::int64_t registers = 0;
  for (const std::int64_t columns : chained) registers += 4 * columns;
  return registers;
}

std::int64_t ProductFacts::row_registers() const {
  std::int64_t registers = 0;
  for (const std::int64_t points : inner) registers += 4 * points;
  return registers;
}

ProductFacts product_facts(const tile::Kernel& kernel, const BlockStep& step) {
  const auto parts = [&](std::int32_t axis, std::int64_t size) {
    return parts_of(kernel.axes[static_cast<std::size_t>(axis)].extent, size);
  };
  ProductFacts product;
  product.row_tiles = parts(step.row, 16);
  product.column_tiles = parts(step.column, 8);
  product.whole_rows = step.whole_rows;
  product.window = step.window;
  for (const tile::Dot* dot : dots_of(step)) product.inner.push_back(parts(dot->contract, 16));
  for (const tile::Dot* dot : chained_of(step)) product.chained.push_back(parts(column_of(kernel, *dot), 8));
  product.stores_columns = std::ranges::any_of(step.nodes, [&](const tile::Node* node) {
    const auto* store = std::get_if<tile::Store>(node);
    return store != nullptr &&
           tile::contains_lane(kernel.values[static_cast<std::size_t>(store->value.id)].lanes, step.column);
  });
  if (product.is_second()) {
    product.windows = parts(step.row, step.window);
    product.row_tiles = step.window / 16;
  }
  return product;
}

}  // namespace rewire::codegen::cuda
