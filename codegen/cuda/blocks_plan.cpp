// Lays out a block kernel: its steps, where values are kept, and shared memory; see blocks_plan.h.
#include "codegen/cuda/blocks_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "codegen/cuda/blocks_arrays.h"
#include "codegen/cuda/blocks_schedules.h"
#include "codegen/cuda/blocks_steps.h"
#include "codegen/cuda/blocks_windows.h"
#include "codegen/cuda/kernel_text.h"
#include "codegen/tile/walk.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"

namespace rewire::codegen::cuda {
namespace {

using tile::Kernel;
using tile::Node;
using tile::TileValue;

constexpr int kAgainLimit = 4;  // the most ops of a value that each reader recomputes
constexpr int kNever = 1000;
constexpr std::int64_t kWidestWindow = 32;  // points of the axis that two products walk together

/// Plans a kernel: its steps, the homes of its values, and the places of its arrays in shared memory.
/// `copies_all`: beside products on tensor cores, all loads of two lanes that are bf16 are copied into shared
/// memory, so that they are in flight together.
class BlockLayout {
 public:
  BlockLayout(const Kernel& kernel, const DeviceTarget& target, bool copies_all)
      : kernel_(kernel), target_(target), copies_all_(copies_all) {
    plan_.values.resize(kernel.values.size());
    plan_.by_partition = walks_parts(kernel);
  }

  /// Returns nullopt if the target has too little shared memory.
  std::optional<BlockPlan> plan() {
    find_definitions();
    while (true) {
      choose_narrow();
      choose_rows();
      choose_again();
      choose_steps();
      choose_homes();
      place_values();
      if (plan_.shared_bytes <= target_.shared_bytes_per_block && has_schedule()) return std::move(plan_);
      if (narrow_window()) continue;
      if (copies_all_ || !unstage()) return std::nullopt;
    }
  }

 private:
  const tile::ValueInfo& info(TileValue value) const {
    return kernel_.values[static_cast<std::size_t>(value.id)];
  }
  BlockValue& value(TileValue of) { return plan_.values[static_cast<std::size_t>(of.id)]; }
  int& known_at(TileValue of) { return known_at_[static_cast<std::size_t>(of.id)]; }

  void find_definitions() {
    visit_nodes(kernel_, [&](const Node& node) {
      if (const TileValue result = tile::result_of(node)) value(result).node = &node;
      if (const auto* dot = std::get_if<tile::Dot>(&node)) {
        staged_.insert(dot->a.id);
        staged_.insert(dot->b.id);
      }
    });
  }

  // --- operands of tensor cores

  /// Returns whether a value is bf16 without loss, so that shared memory can hold it as bf16.
  bool is_narrow(TileValue of) const {
    const Node* node = plan_.value(of).node;
    if (node == nullptr || info(of).lanes.size() != 2 || unstaged_.contains(of.id)) return false;
    if (const auto* load = std::get_if<tile::Load>(node))
      return kernel_.arguments[static_cast<std::size_t>(load->access.argument)].dtype == ir::DType::bf16;
    const auto* op = std::get_if<tile::Pointwise>(node);
    return op != nullptr && op->code == ir::Opcode::cast && info(op->operands[0]).dtype == ir::DType::bf16;
  }
  bool on_tensor_cores(const tile::Dot& dot) const { return is_narrow(dot.a) && is_narrow(dot.b); }

  void choose_narrow() {
    narrow_.clear();
    visit_nodes(kernel_, [&](const Node& node) {
      const auto* dot = std::get_if<tile::Dot>(&node);
      if (dot == nullptr || !on_tensor_cores(*dot)) return;
      narrow_.insert(dot->a.id);
      narrow_.insert(dot->b.id);
    });
    if (!copies_all_ || narrow_.empty()) return;
    visit_nodes(kernel_, [&](const Node& node) {
      const auto* load = std::get_if<tile::Load>(&node);
      if (load == nullptr || load->index || !is_narrow(load->result) || !is_read_only(kernel_, load->access))
        return;
      staged_.insert(load->result.id);
      narrow_.insert(load->result.id);
    });
  }

  // --- values of one lane that products on tensor cores read

  /// Finds the values of one lane that are computed from loads and read along with the elements of products
  /// on tensor cores. A thread reads them again for each tile, so they are kept in shared memory.
  void choose_rows() {
    rows_.clear();
    if (narrow_.empty()) return;
    std::set<std::int32_t> loaded;
    visit_nodes(kernel_, [&](const Node& node) {
      const TileValue result = tile::result_of(node);
      if (!result) return;
      const std::vector<TileValue> operands = tile::operands_of(node);
      if (info(result).lanes.size() == 1) {
        const bool from_loads =
            std::ranges::any_of(operands, [&](TileValue operand) { return loaded.contains(operand.id); });
        if (std::holds_alternative<tile::Load>(node) ||
            (std::holds_alternative<tile::Pointwise>(node) && from_loads))
          loaded.insert(result.id);
      } else if (std::holds_alternative<tile::Pointwise>(node) && info(result).lanes.size() == 2) {
        for (TileValue operand : operands) {
          if (loaded.contains(operand.id)) rows_.insert(operand.id);
        }
      }
    });
  }

  // --- values that their readers recompute

  static int op_cost(ir::Opcode code) {
    const double operations = ir::operations_each(code);
    if (operations <= 1) return 1;
    return operations <= 4 ? 3 : kNever;
  }

  /// Computes the cost of each value, in the order of definition. Readers recompute a value that costs at
  /// most kAgainLimit.
  void choose_again() {
    std::vector<int> cost(kernel_.values.size(), kNever);
    visit_nodes(kernel_, [&](const Node& node) {
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
        own =
            is_read_only(kernel_, load->access) ? 1 + (load->index ? operand_cost(load->index) : 0) : kNever;
        if (!staged && !rows_.contains(result.id) && own <= kAgainLimit) home = BlockHome::again;
      } else if (const auto* op = std::get_if<tile::Pointwise>(&node)) {
        own = op_cost(op->code);
        for (TileValue operand : op->operands) own = std::min(own + operand_cost(operand), kNever);
        if (own <= kAgainLimit && !staged_.contains(result.id) && !rows_.contains(result.id))
          home = BlockHome::again;
      }
      const bool finished = std::holds_alternative<tile::Reduce>(node) ||
                            std::holds_alternative<tile::Dot>(node) || staged_.contains(result.id) ||
                            rows_.contains(result.id);
      value(result).home = home;
      if (home == BlockHome::local) own = finished ? 1 : kNever;  // 1: it is in shared memory anyway
    });
  }

  // --- steps

  void choose_steps() {
    BlockSteps ordered = block_steps(kernel_, plan_.values, staged_, narrow_);
    steps_ = std::move(ordered.steps);
    known_at_ = std::move(ordered.known_at);
    body_begin_ = ordered.body_begin;
    body_end_ = ordered.body_end;
    windows_ = find_windows(kernel_, steps_, body_begin_);
    if (windows_ && window_ > 0) {
      steps_[windows_->step].window = steps_[windows_->step + 1].window = window_;
    }
    const auto at = [&](int step) { return steps_.begin() + step; };
    plan_.prologue.assign(at(0), at(body_begin_));
    plan_.body.assign(at(body_begin_), at(body_end_ + 1));
    plan_.epilogue.assign(at(body_end_ + 1), steps_.end());
  }

  // --- homes

  /// Puts a value into shared memory if it is read outside of its loop or over other lanes, or if no loop
  /// computes it.
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
      const StepKind kind = steps_[static_cast<std::size_t>(known_at_[id])].kind;
      const bool inside = kind == StepKind::loop || kind == StepKind::tensor_dot;
      if (!inside || outside.contains(static_cast<std::int32_t>(id))) {
        own.home = BlockHome::shared;
        own.array = add_array(static_cast<std::int32_t>(id), !std::holds_alternative<tile::Load>(*own.node));
      }
    }
    for (const tile::Carried& carried : kernel_.carried) {
      const bool scalar = info(carried.entry).lanes.empty();
      plan_.carried_arrays.push_back(
          scalar ? -1 : add_array(shared_array(kernel_, info(carried.entry), false, true)));
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

  std::int32_t add_array(std::int32_t id, bool computed) {
    const tile::ValueInfo& of = info({id});
    const BlockStep& step = steps_[static_cast<std::size_t>(known_at({id}))];
    if (adds_rows(step, *value({id}).node))
      return add_array(
          row_sums_array(kernel_, of, parts_of(kernel_.axes[static_cast<std::size_t>(step.row)].extent, 16)));
    if (window_ > 0 && windows_ && windows_->arrays.contains(id))
      return add_array(window_array(kernel_, of, window_, computed));
    return add_array(shared_array(kernel_, of, narrow_.contains(id), computed));
  }
  std::int32_t add_array(SharedArray array) {
    plan_.arrays.push_back(std::move(array));
    return static_cast<std::int32_t>(plan_.arrays.size()) - 1;
  }

  // --- shared memory

  void place_values() {
    std::vector<ArrayLife> lives;
    const int last_step = static_cast<int>(steps_.size());
    for (std::size_t id = 0; id < plan_.values.size(); ++id) {
      const BlockValue& own = plan_.values[id];
      if (own.home != BlockHome::shared || own.node == nullptr) continue;
      ArrayLife life{known_at_[id], std::max(last_read_[id], known_at_[id]), own.array};
      // In windows, sums over the rows of the second step begin with the first, in which the windows begin. The
      // sums of the first are written when all windows are done.
      const BlockStep& step = steps_[static_cast<std::size_t>(life.begin)];
      if (step.window > 0 && adds_rows(step, *own.node))
        life.begin = static_cast<int>(windows_->step) + (chained_of(step).empty() ? 0 : 1);
      if (life.begin < body_begin_ && life.end >= body_begin_) life.end = std::max(life.end, body_end_);
      lives.push_back(life);
    }
    for (std::int32_t array : plan_.carried_arrays) {
      if (array >= 0) lives.push_back({0, last_step, array});
    }
    plan_.shared_bytes = place_arrays(std::move(lives), plan_.arrays);
  }

  /// Walks the products in windows that take less shared memory, if there are any. Returns false if the
  /// narrowest did not fit either; there are no windows then.
  bool narrow_window() {
    if (!windows_ || walked_) return false;
    window_ = window_ == 0 ? kWidestWindow : window_ / 2;
    walked_ = window_ < 16;
    if (walked_) window_ = 0;
    return true;
  }
  /// Returns whether a block has warps and registers to walk in windows.
  bool has_schedule() const {
    return window_ == 0 || !windows_ || can_walk(block_facts(kernel_, plan_, target_));
  }

  /// Reads the largest load that a dot keeps in shared memory from device memory instead. Returns false if
  /// there is no such load.
  bool unstage() {
    std::int32_t largest = -1;
    for (std::int32_t id : staged_) {
      const BlockValue& own = plan_.values[static_cast<std::size_t>(id)];
      if (unstaged_.contains(id) || own.home != BlockHome::shared) continue;
      const auto* load = std::get_if<tile::Load>(own.node);
      if (load == nullptr || load->index || !is_read_only(kernel_, load->access)) continue;
      if (largest < 0 || bytes_of(id) > bytes_of(largest)) largest = id;
    }
    if (largest >= 0) unstaged_.insert(largest);
    return largest >= 0;
  }

  std::int64_t bytes_of(std::int32_t id) const {
    return plan_.arrays[static_cast<std::size_t>(plan_.values[static_cast<std::size_t>(id)].array)].bytes;
  }

  const Kernel& kernel_;
  const DeviceTarget& target_;
  const bool copies_all_;
  BlockPlan plan_;
  std::vector<BlockStep> steps_;
  std::vector<int> known_at_, last_read_;  // by value: steps
  std::set<std::int32_t> staged_, unstaged_, narrow_, rows_;
  int body_begin_ = 0, body_end_ = -1;
  std::optional<Windows> windows_;
  std::int64_t window_ = 0;  // of the products in windows_; 0: they are not walked in windows
  bool walked_ = false;      // no window fits
};

std::vector<BlockStep*> products_of(BlockPlan& plan) {
  std::vector<BlockStep*> found;
  for (auto* section : {&plan.prologue, &plan.body, &plan.epilogue}) {
    for (BlockStep& step : *section) {
      if (step.kind == StepKind::tensor_dot) found.push_back(&step);
    }
  }
  return found;
}

/// Returns the points of an axis that products walk together; 0: they do not.
std::int64_t window_of(BlockPlan& plan) {
  std::int64_t window = 0;
  for (const BlockStep* step : products_of(plan)) window = std::max(window, step->window);
  return window;
}

/// Lays out a kernel. Loads that no product needs are copied if they take no shared memory of their own.
std::optional<BlockPlan> lay_out(const Kernel& kernel, const DeviceTarget& target) {
  std::optional<BlockPlan> plan = BlockLayout(kernel, target, false).plan();
  if (!plan || products_of(*plan).empty()) return plan;
  std::optional<BlockPlan> copied = BlockLayout(kernel, target, true).plan();
  const bool takes =
      copied && copied->shared_bytes <= plan->shared_bytes && window_of(*copied) == window_of(*plan);
  return takes ? copied : plan;
}

}  // namespace

std::optional<BlockPlan> plan_block(const Kernel& kernel, const DeviceTarget& target,
                                    const BlockSchedule* schedule) {
  if (kernel.bounds || !kernel.short_tiles.empty()) return std::nullopt;  // walks_plan.h has them
  std::optional<BlockPlan> plan = lay_out(kernel, target);
  if (!plan) return std::nullopt;
  const BlockFacts facts = block_facts(kernel, *plan, target);
  if (schedule != nullptr && !fits(facts, *schedule)) return std::nullopt;
  const BlockSchedule taken = schedule != nullptr ? *schedule : modelled_block(facts);
  plan->threads = taken.threads;
  plan->resident_blocks = taken.resident_blocks;
  const std::vector<BlockStep*> products = products_of(*plan);
  for (std::size_t i = 0; i < products.size(); ++i) {
    products[i]->width = taken.widths[i];
    products[i]->held_rows = holds_rows(facts, facts.products[i], taken.threads / 32);
  }
  return plan;
}

std::vector<BlockSchedule> block_schedules(const Kernel& kernel, const DeviceTarget& target,
                                           std::size_t most) {
  const std::optional<BlockPlan> plan = lay_out(kernel, target);
  if (!plan) return {};
  return block_schedules(block_facts(kernel, *plan, target), most);
}

}  // namespace rewire::codegen::cuda
