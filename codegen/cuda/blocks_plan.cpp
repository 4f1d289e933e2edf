// Steps, homes and shared memory of a block kernel; see blocks_plan.h.
#include "codegen/cuda/blocks_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "codegen/cuda/kernel_text.h"
#include "codegen/tile/walk.h"

namespace rewire::codegen::cuda {
namespace {

using tile::AxisUse;
using tile::Kernel;
using tile::Node;
using tile::TileValue;
using Lanes = std::vector<std::int32_t>;

constexpr int kAgainLimit = 4;  // ops of a value that is computed at each reader
constexpr int kNever = 1000;

class Planner {
 public:
  Planner(const Kernel& kernel, const DeviceTarget& target) : kernel_(kernel), target_(target) {
    plan_.values.resize(kernel.values.size());
    known_at_.resize(kernel.values.size(), -1);
  }

  std::optional<BlockPlan> plan() {
    find_definitions();
    while (true) {
      choose_again();
      schedule();
      choose_homes();
      place_arrays();
      if (plan_.shared_bytes <= target_.shared_bytes_per_block) break;
      if (!unstage()) return std::nullopt;
    }
    choose_threads();
    plan_.by_partition = !kernel_.carried.empty() || !kernel_.epilogue.empty() || uses_part();
    return std::move(plan_);
  }

 private:
  const tile::ValueInfo& info(TileValue value) const {
    return kernel_.values[static_cast<std::size_t>(value.id)];
  }
  BlockValue& value(TileValue of) { return plan_.values[static_cast<std::size_t>(of.id)]; }
  int& known_at(TileValue of) { return known_at_[static_cast<std::size_t>(of.id)]; }

  template <class Visit>
  void visit_nodes(Visit visit) const {
    for (const auto* section : {&kernel_.prologue, &kernel_.body, &kernel_.epilogue}) {
      for (const Node& node : *section) visit(node);
    }
  }

  void find_definitions() {
    visit_nodes([&](const Node& node) {
      if (const TileValue result = tile::result_of(node)) value(result).node = &node;
      if (const auto* dot = std::get_if<tile::Dot>(&node)) {
        staged_.insert(dot->a.id);
        staged_.insert(dot->b.id);
      }
    });
  }

  bool uses_part() const {
    bool part = false;
    visit_nodes([&](const Node& node) {
      const tile::Access* access = tile::access_of(node);
      part = part || (access != nullptr && access->part_stride != 0);
    });
    return part && kernel_.partitions > 1;
  }

  bool is_read_only(const tile::Access& access) const {
    return kernel_.arguments[static_cast<std::size_t>(access.argument)].use == tile::ArgumentUse::read;
  }

  // --- what is computed where it is read

  static int op_cost(ir::Opcode code) {
    switch (code) {
      case ir::Opcode::exp:
      case ir::Opcode::log:
      case ir::Opcode::sin:
      case ir::Opcode::cos:
      case ir::Opcode::tanh:
      case ir::Opcode::erf:
      case ir::Opcode::sigmoid:
      case ir::Opcode::pow:
        return kNever;
      case ir::Opcode::div:
      case ir::Opcode::sqrt:
      case ir::Opcode::rsqrt:
        return 3;
      default:
        return 1;
    }
  }

  /// Costs by value, in the order of definition; what costs no more than the limit is computed again.
  void choose_again() {
    std::vector<int> cost(kernel_.values.size(), kNever);
    visit_nodes([&](const Node& node) {
      const TileValue result = tile::result_of(node);
      if (!result) return;
      int& own = cost[static_cast<std::size_t>(result.id)];
      BlockHome home = BlockHome::local;
      const auto operand_cost = [&](TileValue operand) {
        return info(operand).lanes.empty() ? 0 : cost[static_cast<std::size_t>(operand.id)];
      };
      if (std::holds_alternative<tile::Constant>(node) || std::holds_alternative<tile::Index>(node)) {
        own = 0;
        home = BlockHome::immediate;
      } else if (info(result).lanes.empty()) {
        home = BlockHome::scalar;
      } else if (const auto* load = std::get_if<tile::Load>(&node)) {
        const bool staged = staged_.contains(result.id) && !unstaged_.contains(result.id);
        own = is_read_only(load->access) ? 1 + (load->index ? operand_cost(load->index) : 0) : kNever;
        if (!staged && own <= kAgainLimit) home = BlockHome::again;
        if (staged) own = kNever;
      } else if (const auto* op = std::get_if<tile::Pointwise>(&node)) {
        own = op_cost(op->code);
        for (TileValue operand : op->operands) own = std::min(own + operand_cost(operand), kNever);
        if (own <= kAgainLimit && !staged_.contains(result.id)) home = BlockHome::again;
      }
      const bool finished =
          std::holds_alternative<tile::Reduce>(node) || std::holds_alternative<tile::Dot>(node);
      value(result).home = home;
      if (home == BlockHome::local) own = finished ? 1 : kNever;  // 1: it lies in shared memory anyway
    });
  }

  bool has_step(const Node& node) {
    const TileValue result = tile::result_of(node);
    if (!result) return true;
    const BlockHome home = value(result).home;
    return home != BlockHome::immediate && home != BlockHome::again;
  }

  // --- steps

  void schedule() {
    steps_.clear();
    deferred_.clear();
    section_begin_ = 0;
    touched_.clear();
    schedule_section(kernel_.prologue);
    const auto prologue = steps_.size();
    section_begin_ = static_cast<int>(prologue);
    for (const tile::Carried& carried : kernel_.carried) known_at(carried.entry) = section_begin_ - 1;
    schedule_section(kernel_.body);
    const auto body = steps_.size();
    section_begin_ = static_cast<int>(body);
    for (const tile::Carried& carried : kernel_.carried) known_at(carried.last) = section_begin_ - 1;
    schedule_section(kernel_.epilogue);
    const auto at = [&](std::size_t i) { return steps_.begin() + static_cast<std::ptrdiff_t>(i); };
    plan_.prologue.assign(at(0), at(prologue));
    plan_.body.assign(at(prologue), at(body));
    plan_.epilogue.assign(at(body), steps_.end());
    body_begin_ = static_cast<int>(prologue);
    body_end_ = static_cast<int>(body) - 1;
  }

  void schedule_section(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      if (is_deferred(node)) {
        deferred_.insert(tile::result_of(node).id);
        continue;
      }
      for (TileValue operand : tile::operands_of(node)) place_deferred(operand);
      const TileValue result = tile::result_of(node);
      if (!has_step(node)) {
        known_at(result) = ready(node, {}, StepKind::scalars);
        continue;
      }
      BlockStep step = step_of(node);
      const int first = std::max({ready(node, step.lanes, step.kind), section_begin_, ordered(node)});
      const int index = join(step, first);
      steps_[static_cast<std::size_t>(index)].nodes.push_back(&node);
      if (result) known_at(result) = index;
      if (const tile::Access* access = tile::access_of(node); access != nullptr) touch(node, *access, index);
    }
  }

  /// What a dot keeps in shared memory is loaded just before its first reader: what is read earlier may have
  /// left its place by then.
  bool is_deferred(const Node& node) {
    const auto* load = std::get_if<tile::Load>(&node);
    return load != nullptr && !load->index && staged_.contains(load->result.id) &&
           value(load->result).home == BlockHome::local && is_read_only(load->access);
  }

  void place_deferred(TileValue operand) {
    const BlockValue& source = value(operand);
    if (source.home == BlockHome::again) {
      for (TileValue inner : tile::operands_of(*source.node)) place_deferred(inner);
    }
    if (deferred_.erase(operand.id) == 0) return;
    const BlockStep step = step_of(*source.node);
    const int index = join(step, std::max(section_begin_, static_cast<int>(steps_.size()) - 1));
    steps_[static_cast<std::size_t>(index)].nodes.push_back(source.node);
    known_at(operand) = index;
  }

  BlockStep step_of(const Node& node) const {
    BlockStep step;
    step.lanes = tile::iteration_lanes(kernel_, node);
    step.kind = step.lanes.empty() ? StepKind::scalars : StepKind::loop;
    if (const auto* reduce = std::get_if<tile::Reduce>(&node)) {
      step = {StepKind::reduce, info(reduce->result).lanes, reduce->axes, {}};
    } else if (std::holds_alternative<tile::Dot>(node)) {
      step.kind = StepKind::dot;
    }
    return step;
  }

  /// The first step in which all operands are known: that of an operand itself where both run point by point
  /// over the same lanes, or by every thread.
  int ready(const Node& node, const Lanes& lanes, StepKind kind) {
    int first = 0;
    for (TileValue operand : tile::operands_of(node))
      first = std::max(first, ready_after(operand, lanes, kind));
    return first;
  }

  int ready_after(TileValue operand, const Lanes& lanes, StepKind kind) {
    const int at = known_at(operand);
    const BlockValue& source = value(operand);
    if (source.home == BlockHome::immediate) return 0;
    if (at < 0 || source.node == nullptr) return std::max(at + 1, 0);
    if (source.home == BlockHome::again) return at;  // what it reads is known at that step
    const BlockStep& step = steps_[static_cast<std::size_t>(at)];
    const bool together = (step.kind == StepKind::loop && kind == StepKind::loop && step.lanes == lanes) ||
                          (step.kind == StepKind::scalars && kind == StepKind::scalars);
    return together ? at : at + 1;
  }

  int join(const BlockStep& step, int first) {
    for (int i = first; i < static_cast<int>(steps_.size()); ++i) {
      const BlockStep& other = steps_[static_cast<std::size_t>(i)];
      if (step.kind != StepKind::dot && other.kind == step.kind && other.lanes == step.lanes &&
          other.reduced == step.reduced)
        return i;
    }
    steps_.push_back(step);
    return static_cast<int>(steps_.size()) - 1;
  }

  /// What is read and written keeps its order, a step apart.
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

  // --- homes

  /// What is read outside of its loop, or lanes that differ, lies in shared memory.
  void choose_homes() {
    last_read_.assign(kernel_.values.size(), -1);
    plan_.arrays.clear();
    plan_.carried_arrays.clear();
    std::set<std::int32_t> outside;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      for (const Node* node : steps_[i].nodes) {
        for (TileValue operand : tile::operands_of(*node)) read(operand, static_cast<int>(i), outside);
      }
    }
    for (const tile::Carried& carried : kernel_.carried) {
      read(carried.initial, body_begin_, outside);
      read(carried.next, body_end_ + 1, outside);
    }
    for (std::size_t id = 0; id < plan_.values.size(); ++id) {
      BlockValue& own = plan_.values[id];
      own.array = -1;
      if (own.node == nullptr) continue;
      if (own.home == BlockHome::shared) own.home = BlockHome::local;
      if (own.home != BlockHome::local) continue;
      const bool loop = steps_[static_cast<std::size_t>(known_at_[id])].kind == StepKind::loop;
      if (!loop || outside.contains(static_cast<std::int32_t>(id))) {
        own.home = BlockHome::shared;
        own.array = add_array(kernel_.values[id]);
      }
    }
    for (const tile::Carried& carried : kernel_.carried) {
      const bool scalar = info(carried.entry).lanes.empty();
      plan_.carried_arrays.push_back(scalar ? -1 : add_array(info(carried.entry)));
      for (TileValue of : {carried.entry, carried.last}) {
        value(of).home = scalar ? BlockHome::scalar : BlockHome::shared;
        value(of).array = plan_.carried_arrays.back();
      }
    }
  }

  void read(TileValue operand, int step, std::set<std::int32_t>& outside) {
    const BlockValue& source = value(operand);
    int& last = last_read_[static_cast<std::size_t>(operand.id)];
    last = std::max(last, step);
    if (source.node == nullptr) return;
    if (source.home == BlockHome::again) {
      for (TileValue inner : tile::operands_of(*source.node)) read(inner, step, outside);
    } else if (known_at(operand) != step) {
      outside.insert(operand.id);
    }
  }

  std::int32_t add_array(const tile::ValueInfo& of) {
    SharedArray array{of.dtype, of.lanes, 1, 0, 0};
    const std::int64_t last = kernel_.axes[static_cast<std::size_t>(of.lanes.back())].extent;
    array.pitch = of.lanes.size() == 2 && last > 1 ? last | 1 : last;  // odd: columns lie in distinct banks
    const std::int64_t elements = extent_of(kernel_, of.lanes) / last * array.pitch;
    const std::size_t bytes =
        of.dtype == ir::DType::bf16 || of.dtype == ir::DType::f16 ? 4 : ir::dtype_bytes(of.dtype);
    array.bytes = (elements * static_cast<std::int64_t>(bytes) + 15) / 16 * 16;
    plan_.arrays.push_back(array);
    return static_cast<std::int32_t>(plan_.arrays.size()) - 1;
  }

  // --- shared memory

  struct Life {
    int begin = 0, end = 0;
    std::int32_t array = -1;
  };

  void place_arrays() {
    std::vector<Life> lives;
    const int last_step = static_cast<int>(steps_.size());
    for (std::size_t id = 0; id < plan_.values.size(); ++id) {
      const BlockValue& own = plan_.values[id];
      if (own.home != BlockHome::shared || own.node == nullptr) continue;
      Life life{known_at_[id], std::max(last_read_[id], known_at_[id]), own.array};
      if (life.begin < body_begin_ && life.end >= body_begin_) life.end = std::max(life.end, body_end_);
      lives.push_back(life);
    }
    for (std::int32_t array : plan_.carried_arrays) {
      if (array >= 0) lives.push_back({0, last_step, array});
    }
    std::sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) {
      return std::pair(a.begin, a.array) < std::pair(b.begin, b.array);
    });
    std::vector<Life> placed;
    plan_.shared_bytes = kBlockScratchBytes;
    for (const Life& life : lives) {
      SharedArray& array = plan_.arrays[static_cast<std::size_t>(life.array)];
      array.offset = first_gap(placed, life, array.bytes);
      placed.push_back(life);
      plan_.shared_bytes = std::max(plan_.shared_bytes, array.offset + array.bytes);
    }
  }

  std::int64_t first_gap(const std::vector<Life>& placed, const Life& life, std::int64_t bytes) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const Life& other : placed) {
      if (other.end < life.begin || life.end < other.begin) continue;
      const SharedArray& array = plan_.arrays[static_cast<std::size_t>(other.array)];
      taken.emplace_back(array.offset, array.offset + array.bytes);
    }
    std::sort(taken.begin(), taken.end());
    std::int64_t at = kBlockScratchBytes;
    for (const auto& [begin, end] : taken) {
      if (begin - at >= bytes) break;
      at = std::max(at, end);
    }
    return at;
  }

  /// The largest load that a dot keeps in shared memory is read from device memory instead.
  bool unstage() {
    std::int32_t largest = -1;
    for (std::int32_t id : staged_) {
      const BlockValue& own = plan_.values[static_cast<std::size_t>(id)];
      if (unstaged_.contains(id) || own.home != BlockHome::shared) continue;
      const auto* load = std::get_if<tile::Load>(own.node);
      if (load == nullptr || load->index || !is_read_only(load->access)) continue;
      if (largest < 0 || bytes_of(id) > bytes_of(largest)) largest = id;
    }
    if (largest >= 0) unstaged_.insert(largest);
    return largest >= 0;
  }

  std::int64_t bytes_of(std::int32_t id) const {
    return plan_.arrays[static_cast<std::size_t>(plan_.values[static_cast<std::size_t>(id)].array)].bytes;
  }

  void choose_threads() {
    std::int64_t points = 1;
    for (const BlockStep& step : steps_)
      points = std::max(points, extent_of(kernel_, step.lanes) * extent_of(kernel_, step.reduced));
    plan_.threads = 64;
    while (plan_.threads < 256 && points > std::int64_t{plan_.threads} * 2) plan_.threads *= 2;
  }

  const Kernel& kernel_;
  const DeviceTarget& target_;
  BlockPlan plan_;
  std::vector<BlockStep> steps_;
  std::vector<int> known_at_, last_read_;  // by value: steps
  std::set<std::int32_t> staged_, unstaged_, deferred_;
  std::map<std::int32_t, int> touched_;
  int section_begin_ = 0, body_begin_ = 0, body_end_ = -1;
};

}  // namespace

std::optional<BlockPlan> plan_block(const Kernel& kernel, const DeviceTarget& target) {
  return Planner(kernel, target).plan();
}

}  // namespace rewire::codegen::cuda
