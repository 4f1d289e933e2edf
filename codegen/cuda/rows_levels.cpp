#include "codegen/cuda/rows_levels.h"

#include <algorithm>
#include <map>

#include "codegen/cuda/kernel_text.h"
#include "codegen/tile/walk.h"
#include "ir/opcodes.h"

namespace rewire::codegen::cuda {
namespace {

using tile::AxisUse;
using tile::Kernel;
using tile::Node;
using tile::TileValue;

const tile::ValueInfo& info(const Kernel& kernel, TileValue value) {
  return kernel.values[static_cast<std::size_t>(value.id)];
}

bool is_read_write(const Kernel& kernel, std::int32_t argument) {
  return kernel.arguments[static_cast<std::size_t>(argument)].use == tile::ArgumentUse::read_write;
}

void count_uses(const Kernel& kernel, RowLevels& levels) {
  visit_nodes(kernel, [&](const Node& node) {
    for (TileValue operand : tile::operands_of(node)) ++levels.home(operand).uses;
  });
  for (const tile::Carried& carried : kernel.carried) {
    ++levels.home(carried.initial).uses;
    ++levels.home(carried.next).uses;
  }
}

CarriedPlan plan_carried(const Kernel& kernel, const RowLevels& levels, const tile::Carried& carried) {
  CarriedPlan plan;
  for (const Node& node : kernel.body) {
    const auto* op = std::get_if<tile::Pointwise>(&node);
    if (op == nullptr || op->result != carried.next) continue;
    const bool sum = op->code == ir::Opcode::add, max = op->code == ir::Opcode::maximum;
    if ((!sum && !max) || levels.home(carried.entry).uses != 1 || levels.home(carried.next).uses != 1)
      continue;
    if (op->operands[0] != carried.entry && op->operands[1] != carried.entry) continue;
    plan = {sum ? tile::ReduceKind::sum : tile::ReduceKind::max, &node,
            op->operands[0] == carried.entry ? op->operands[1] : op->operands[0]};
  }
  return plan;
}

void set_known(const Kernel& kernel, RowLevels& levels, TileValue value, SectionId section, int level = 0) {
  ValueHome& home = levels.home(value);
  home.section = section;
  home.level = level;
  home.lane = !info(kernel, value).lanes.empty();
}

/// Keeps the loads and stores of each argument of a section in their order.
class AccessOrder {
 public:
  explicit AccessOrder(const Kernel& kernel) : kernel_(kernel) {}

  /// Returns the level of a node that may run at `level` or later.
  int level_of(const Node& node, int level) {
    const tile::Access* access = tile::access_of(node);
    if (access == nullptr || std::holds_alternative<tile::Random>(node)) return level;
    const std::int32_t argument = access->argument;
    if (!is_read_write(kernel_, argument)) return level;
    const bool scalar = tile::iteration_lanes(kernel_, node).empty();
    if (std::holds_alternative<tile::Load>(node)) {
      if (const auto before = stored_.find(argument); before != stored_.end())
        level = std::max(level, before->second + 1);
      int& last = loaded_[argument];
      last = std::max(last, level + (scalar ? 0 : 1));
      return level;
    }
    if (const auto before = loaded_.find(argument); before != loaded_.end())
      level = std::max(level, scalar ? before->second : before->second - 1);
    int& last = stored_[argument];
    last = std::max(last, level);
    return level;
  }

 private:
  const Kernel& kernel_;
  std::map<std::int32_t, int> loaded_, stored_;  // by argument
};

/// Assigns a section's nodes to levels. Values of earlier sections are available at level 0.
Section level_section(const Kernel& kernel, RowLevels& levels, const std::vector<Node>& nodes, SectionId id) {
  Section section;
  AccessOrder order(kernel);
  for (const Node& node : nodes) {
    int level = 0;
    for (TileValue operand : tile::operands_of(node)) {
      const ValueHome& home = levels.home(operand);
      if (home.section == id) level = std::max(level, home.level);
    }
    level = order.level_of(node, level);
    if (const TileValue result = tile::result_of(node)) {
      const int after = std::holds_alternative<tile::Reduce>(node) ? 1 : 0;
      set_known(kernel, levels, result, id, level + after);
    }
    section.nodes.push_back({&node, level});
    section.levels = std::max(section.levels, level + 1);
  }
  return section;
}

void sink_scalar_loads(const Kernel& kernel, RowLevels& levels, Section& section, SectionId id) {
  std::map<std::int32_t, int> first;
  for (const LeveledNode& leveled : section.nodes) {
    for (TileValue operand : tile::operands_of(*leveled.node)) {
      const auto [read, fresh] = first.try_emplace(operand.id, leveled.level);
      read->second = std::min(read->second, leveled.level);
    }
  }
  for (LeveledNode& leveled : section.nodes) {
    const auto* load = std::get_if<tile::Load>(leveled.node);
    if (load == nullptr || load->index || !tile::iteration_lanes(kernel, *load).empty()) continue;
    if (is_read_write(kernel, load->access.argument)) continue;
    const auto read = first.find(load->result.id);
    if (read == first.end() || read->second <= leveled.level) continue;
    leveled.level = read->second;
    set_known(kernel, levels, load->result, id, leveled.level);
  }
}

class HomeChooser {
 public:
  HomeChooser(const Kernel& kernel, RowLevels& levels) : kernel_(kernel), levels_(levels) {
    for (const auto& [id, section] : levels.sections()) {
      for (const LeveledNode& leveled : section->nodes) {
        for (TileValue operand : tile::operands_of(*leveled.node))
          readers_[operand.id].push_back({id, leveled.level, leveled.node});
      }
    }
  }

  void choose() {
    for (const auto& [id, section] : levels_.sections()) {
      for (const LeveledNode& leveled : section->nodes) choose(*leveled.node, id, leveled.level);
    }
    for (std::size_t i = 0; i < kernel_.carried.size(); ++i) {
      const tile::Carried& carried = kernel_.carried[i];
      if (info(kernel_, carried.entry).lanes.empty()) continue;
      for (TileValue value : {carried.entry, carried.last}) levels_.home(value).array = true;
      if (!levels_.carried[i].additive) keep(carried.next);
      if (!is_immediate(carried.initial)) keep(carried.initial);
    }
  }

 private:
  struct Reader {
    SectionId section{};
    int level = 0;
    const Node* node = nullptr;
  };

  void keep(TileValue value) {
    ValueHome& home = levels_.home(value);
    home.array = true;
    home.again = home.inlined = false;
  }

  /// Returns whether a value is a constant or an index, which is written where it is read.
  bool is_immediate(TileValue value) const { return immediates_.contains(value.id); }

  void choose(const Node& node, SectionId section, int level) {
    const TileValue result = tile::result_of(node);
    if (!result) return;
    ValueHome& own = levels_.home(result);
    if (std::holds_alternative<tile::Constant>(node) || std::holds_alternative<tile::Index>(node)) {
      immediates_[result.id] = true;
      own.again = std::holds_alternative<tile::Index>(node);
      return;
    }
    const auto* op = std::get_if<tile::Pointwise>(&node);
    const std::vector<Reader>& readers = readers_[result.id];
    if (!own.lane) {
      own.inlined =
          op != nullptr && own.uses == 1 && readers.size() == 1 && reads_scalar(readers[0], section, level);
      return;
    }
    if (op != nullptr && std::all_of(op->operands.begin(), op->operands.end(), [&](TileValue operand) {
          return is_immediate(operand) || levels_.home(operand).again;
        })) {
      own.again = true;
      return;
    }
    const auto* load = std::get_if<tile::Load>(&node);
    const bool whole = std::holds_alternative<tile::Random>(node) || (load != nullptr && loads_row(*load));
    const bool here = std::all_of(readers.begin(), readers.end(), [&](const Reader& reader) {
      return reader.section == section && reader.level == level && !stores_row(*reader.node);
    });
    own.array = whole || !here;
    own.inlined = !own.array && op != nullptr && own.uses == 1 && readers.size() == 1 &&
                  !std::holds_alternative<tile::Load>(*readers[0].node);
  }

  bool reads_scalar(const Reader& reader, SectionId section, int level) const {
    const auto* op = std::get_if<tile::Pointwise>(reader.node);
    return op != nullptr && reader.section == section && reader.level == level &&
           info(kernel_, op->result).lanes.empty();
  }
  bool loads_row(const tile::Load& load) const {
    return lane_pattern(kernel_, load.access) == LanePattern::contiguous &&
           (!load.index || info(kernel_, load.index).lanes.empty());
  }
  bool stores_row(const Node& node) const {
    const auto* store = std::get_if<tile::Store>(&node);
    return store != nullptr && lane_pattern(kernel_, store->access) == LanePattern::contiguous;
  }

  const Kernel& kernel_;
  RowLevels& levels_;
  std::map<std::int32_t, std::vector<Reader>> readers_;
  std::map<std::int32_t, bool> immediates_;
};

}  // namespace

LanePattern lane_pattern(const Kernel& kernel, const tile::Access& access) {
  std::int64_t expected = 1;
  bool any = false, contiguous = true;
  for (std::size_t axis = kernel.axes.size(); axis-- > 0;) {
    if (kernel.axes[axis].use != AxisUse::lane) continue;
    any = any || access.strides[axis] != 0;
    if (kernel.axes[axis].extent == 1) continue;
    contiguous = contiguous && access.strides[axis] == expected;
    expected *= kernel.axes[axis].extent;
  }
  if (!any) return LanePattern::scalar;
  return contiguous ? LanePattern::contiguous : LanePattern::general;
}

bool RowLevels::adds_up() const {
  return std::ranges::all_of(carried, [](const CarriedPlan& value) { return value.additive.has_value(); });
}

bool is_row_kernel(const Kernel& kernel) {
  const std::vector<std::int32_t> lane_axes = axes_of(kernel, AxisUse::lane);
  bool rows = kernel.short_tiles.empty();
  visit_nodes(kernel, [&](const Node& node) {
    if (std::holds_alternative<tile::Dot>(node)) rows = false;
    const auto* reduce = std::get_if<tile::Reduce>(&node);
    if (reduce != nullptr && reduce->axes != lane_axes) rows = false;
  });
  for (const tile::Carried& carried : kernel.carried) {
    const auto& lanes = info(kernel, carried.entry).lanes;
    rows = rows && (lanes.empty() || lanes == lane_axes);
  }
  return rows;
}

RowLevels row_levels(const Kernel& kernel) {
  RowLevels levels;
  levels.homes.resize(kernel.values.size());
  count_uses(kernel, levels);
  for (const tile::Carried& carried : kernel.carried)
    levels.carried.push_back(plan_carried(kernel, levels, carried));
  levels.prologue = level_section(kernel, levels, kernel.prologue, SectionId::prologue);
  for (const tile::Carried& carried : kernel.carried)
    set_known(kernel, levels, carried.entry, SectionId::body);
  levels.body = level_section(kernel, levels, kernel.body, SectionId::body);
  for (const tile::Carried& carried : kernel.carried)
    set_known(kernel, levels, carried.last, SectionId::epilogue);
  levels.epilogue = level_section(kernel, levels, kernel.epilogue, SectionId::epilogue);
  return levels;
}

void choose_homes(const Kernel& kernel, RowLevels& levels) {
  HomeChooser(kernel, levels).choose();
}

void sink_scalar_loads(const Kernel& kernel, RowLevels& levels) {
  sink_scalar_loads(kernel, levels, levels.prologue, SectionId::prologue);
  sink_scalar_loads(kernel, levels, levels.body, SectionId::body);
  sink_scalar_loads(kernel, levels, levels.epilogue, SectionId::epilogue);
}

}  // namespace rewire::codegen::cuda
