// Homes, shared memory and threads of a block kernel; see blocks_plan.h.
#include "codegen/cuda/blocks_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "codegen/cuda/blocks_arrays.h"
#include "codegen/cuda/blocks_steps.h"
#include "codegen/cuda/kernel_text.h"
#include "codegen/tile/walk.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"

namespace rewire::codegen::cuda {
namespace {

using tile::Kernel;
using tile::Node;
using tile::TileValue;

constexpr int kAgainLimit = 4;  // ops of a value that is computed at each reader
constexpr int kNever = 1000;
constexpr std::int64_t kBesideProducts = 60;     // of a thread, beside the elements of products
constexpr std::int64_t kBesideChains = 48;       // the same, where other products are chained to them
constexpr std::int64_t kMostRegisters = 255;     // of a thread
constexpr std::int64_t kHeldRegisters = 128;     // of a thread, for chained sums and held rows
constexpr std::int64_t kSchedulers = 4;          // of a multiprocessor, with warps of its own each
constexpr std::int64_t kRegisters = 16384 / 32;  // of a scheduler, for the threads of its warps
constexpr std::int64_t kReservedShared = 1024;   // of a block, by the system
constexpr std::int64_t kFewestWarps = 4, kMostWarps = 8;     // of a block with products on tensor cores
constexpr int kFewestThreads = 64, kMostBlockThreads = 256;  // of one without
constexpr int kResidentThreads = 2048;                       // of a multiprocessor

class BlockPlanner {
 public:
  BlockPlanner(const Kernel& kernel, const DeviceTarget& target) : kernel_(kernel), target_(target) {
    plan_.values.resize(kernel.values.size());
  }

  /// nullopt: too little shared memory, or the schedule is not for the kernel.
  std::optional<BlockPlan> plan(const BlockSchedule* schedule) {
    if (!prepare() || (schedule != nullptr && !takes(*schedule))) return std::nullopt;
    take(schedule != nullptr ? *schedule : modelled());
    plan_.by_partition = walks_parts(kernel_);
    return std::move(plan_);
  }

  /// The cost model's first.
  std::vector<BlockSchedule> schedules(std::size_t most) {
    if (!prepare()) return {};
    const BlockSchedule model = modelled();
    std::vector<BlockSchedule> list = {model};
    const auto add = [&](const BlockSchedule& next) {
      if (list.size() < most && takes(next) && std::ranges::find(list, next) == list.end())
        list.push_back(next);
    };
    if (products_.empty()) {
      for (const int threads : {model.threads * 2, model.threads / 2}) {
        if (threads >= kFewestThreads && threads <= kMostBlockThreads) add(of_threads(threads));
      }
      add(with_blocks(model, model.resident_blocks / 2));
    } else {
      add_tilings(model, add);
    }
    return list;
  }

 private:
  /// Steps, homes and shared memory. False: the target has too little of it.
  bool prepare() {
    find_definitions();
    while (true) {
      choose_narrow();
      choose_again();
      choose_steps();
      choose_homes();
      place_values();
      if (plan_.shared_bytes <= target_.shared_bytes_per_block) break;
      if (!unstage()) return false;
    }
    products_ = steps_of(StepKind::tensor_dot);
    return true;
  }

  const tile::ValueInfo& info(TileValue value) const {
    return kernel_.values[static_cast<std::size_t>(value.id)];
  }
  std::int64_t extent(std::int32_t axis) const { return kernel_.axes[static_cast<std::size_t>(axis)].extent; }
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

  // --- what tensor cores multiply

  /// Whether a value is bf16 exactly, and can lie in shared memory as such.
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
    visit_nodes([&](const Node& node) {
      const auto* dot = std::get_if<tile::Dot>(&node);
      if (dot == nullptr || !on_tensor_cores(*dot)) return;
      narrow_.insert(dot->a.id);
      narrow_.insert(dot->b.id);
    });
  }

  // --- what is computed where it is read

  static int op_cost(ir::Opcode code) {
    const double operations = ir::operations_each(code);
    if (operations <= 1) return 1;
    return operations <= 4 ? 3 : kNever;
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
        own =
            is_read_only(kernel_, load->access) ? 1 + (load->index ? operand_cost(load->index) : 0) : kNever;
        if (!staged && own <= kAgainLimit) home = BlockHome::again;
      } else if (const auto* op = std::get_if<tile::Pointwise>(&node)) {
        own = op_cost(op->code);
        for (TileValue operand : op->operands) own = std::min(own + operand_cost(operand), kNever);
        if (own <= kAgainLimit && !staged_.contains(result.id)) home = BlockHome::again;
      }
      const bool finished = std::holds_alternative<tile::Reduce>(node) ||
                            std::holds_alternative<tile::Dot>(node) || staged_.contains(result.id);
      value(result).home = home;
      if (home == BlockHome::local) own = finished ? 1 : kNever;  // 1: it lies in shared memory anyway
    });
  }

  // --- steps

  void choose_steps() {
    BlockSteps ordered = block_steps(kernel_, plan_.values, staged_, narrow_);
    steps_ = std::move(ordered.steps);
    known_at_ = std::move(ordered.known_at);
    body_begin_ = ordered.body_begin;
    body_end_ = ordered.body_end;
    const auto at = [&](int step) { return steps_.begin() + step; };
    plan_.prologue.assign(at(0), at(body_begin_));
    plan_.body.assign(at(body_begin_), at(body_end_ + 1));
    plan_.epilogue.assign(at(body_end_ + 1), steps_.end());
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
      const StepKind kind = steps_[static_cast<std::size_t>(known_at_[id])].kind;
      const bool inside = kind == StepKind::loop || kind == StepKind::tensor_dot;
      if (!inside || outside.contains(static_cast<std::int32_t>(id))) {
        own.home = BlockHome::shared;
        own.array = add_array(kernel_.values[id], narrow_.contains(static_cast<std::int32_t>(id)));
      }
    }
    for (const tile::Carried& carried : kernel_.carried) {
      const bool scalar = info(carried.entry).lanes.empty();
      plan_.carried_arrays.push_back(scalar ? -1 : add_array(info(carried.entry), false));
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

  std::int32_t add_array(const tile::ValueInfo& of, bool narrow) {
    plan_.arrays.push_back(shared_array(kernel_, of, narrow));
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
      if (life.begin < body_begin_ && life.end >= body_begin_) life.end = std::max(life.end, body_end_);
      lives.push_back(life);
    }
    for (std::int32_t array : plan_.carried_arrays) {
      if (array >= 0) lives.push_back({0, last_step, array});
    }
    plan_.shared_bytes = place_arrays(std::move(lives), plan_.arrays);
  }

  /// The largest load that a dot keeps in shared memory is read from device memory instead.
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

  // --- threads

  std::vector<BlockStep*> steps_of(StepKind kind) {
    std::vector<BlockStep*> found;
    for (auto* section : {&plan_.prologue, &plan_.body, &plan_.epilogue}) {
      for (BlockStep& step : *section) {
        if (step.kind == kind) found.push_back(&step);
      }
    }
    return found;
  }

  /// Where there are products on tensor cores: as few warps as have their tiles done about as soon as any
  /// number of warps would, since what limits the warps of a multiprocessor is shared memory.
  BlockSchedule modelled() const {
    if (products_.empty()) return of_threads(modelled_threads());
    std::int64_t best = clocks_of(kFewestWarps);
    const std::int64_t most = most_warps();
    for (std::int64_t warps = kFewestWarps; warps <= most; ++warps) best = std::min(best, clocks_of(warps));
    std::int64_t warps = kFewestWarps;
    while (warps < most && clocks_of(warps) * 10 > best * 11) ++warps;
    return of_warps(warps);
  }

  /// Where products are chained, a warp without rows of its own there idles most of the time.
  std::int64_t most_warps() const {
    std::int64_t most = 0;
    for (const BlockStep* step : products_) {
      if (!chained_of(*step).empty()) most = std::max(most, parts_of(extent(step->row), 16));
    }
    return most == 0 ? kMostWarps : std::clamp(most, kFewestWarps, kMostWarps);
  }

  std::int64_t blocks_in_shared() const {
    return (target_.shared_bytes_per_block + kReservedShared) / (plan_.shared_bytes + kReservedShared);
  }

  /// Other numbers of warps, the soonest done first, and the next width of the step that takes the most time.
  template <class Add>
  void add_tilings(const BlockSchedule& model, const Add& add) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> others;  // clocks, warps
    for (std::int64_t warps = kFewestWarps; warps <= kMostWarps; ++warps) {
      if (warps * 32 != model.threads) others.emplace_back(clocks_of(warps), warps);
    }
    std::ranges::sort(others);
    add(of_warps(others[0].second));
    add(with_next_width(model));
    add(with_blocks(model, model.resident_blocks - 1));
    for (const auto& [clocks, warps] : others) add(of_warps(warps));
  }

  BlockSchedule of_warps(std::int64_t warps) const {
    BlockSchedule schedule{static_cast<int>(warps * 32), 1, widths_at(warps)};
    schedule.resident_blocks = resident_of(schedule);
    return schedule;
  }

  std::vector<int> widths_at(std::int64_t warps) const {
    std::vector<int> widths;
    for (const BlockStep* step : products_)
      widths.push_back(static_cast<int>(widths_of(*step, warps).front().width));
    return widths;
  }

  /// More registers for each thread of fewer blocks.
  static BlockSchedule with_blocks(BlockSchedule schedule, int blocks) {
    schedule.resident_blocks = blocks;
    return schedule;
  }

  /// The model's itself where no step has another width.
  BlockSchedule with_next_width(const BlockSchedule& model) const {
    BlockSchedule schedule = model;
    std::int64_t most = 0;
    for (std::size_t i = 0; i < products_.size(); ++i) {
      const std::vector<Width> widths = widths_of(*products_[i], model.threads / 32);
      if (widths.size() < 2 || widths[0].clocks <= most) continue;
      most = widths[0].clocks;
      schedule.widths = model.widths;
      schedule.widths[i] = static_cast<int>(widths[1].width);
    }
    schedule.resident_blocks = resident_of(schedule);
    return schedule;
  }

  /// How many blocks both registers and shared memory have room for.
  int resident_of(const BlockSchedule& schedule) const {
    const std::int64_t warps = kRegisters / registers_of(schedule.widths) * kSchedulers;
    const std::int64_t blocks = std::min(warps * 32 / schedule.threads, blocks_in_shared());
    return static_cast<int>(std::clamp<std::int64_t>(blocks, 1, kResidentThreads / schedule.threads));
  }

  /// Where shared memory has room for one block alone, its threads have registers to spare.
  bool holds_rows(const BlockStep& step) const {
    const std::int64_t chained = chained_registers(kernel_, step);
    return chained > 0 && !step.whole_rows && blocks_in_shared() < 2 &&
           chained + row_registers(kernel_, step) <= kHeldRegisters;
  }

  /// Of a thread, about.
  std::int64_t registers_of(const std::vector<int>& widths) const {
    std::int64_t registers = 0;
    for (std::size_t i = 0; i < products_.size(); ++i) {
      const BlockStep& step = *products_[i];
      const std::int64_t chained = chained_registers(kernel_, step);
      const std::int64_t held = holds_rows(step) ? row_registers(kernel_, step) : 0;
      registers = std::max(registers, std::ssize(dots_of(step)) * 4 * widths[i] + chained + held +
                                          (chained > 0 ? kBesideChains : kBesideProducts));
    }
    return std::min<std::int64_t>((registers + 7) / 8 * 8, kMostRegisters);
  }

  std::int64_t clocks_of(std::int64_t warps) const {
    std::int64_t clocks = 0;
    for (const BlockStep* step : products_) clocks += widths_of(*step, warps).front().clocks;
    return clocks;
  }

  struct Width {
    std::int64_t clocks = 0, width = 1;
  };
  /// Of a warp's tiles in a step, with the clocks about that they take; the fastest first.
  std::vector<Width> widths_of(const BlockStep& step, std::int64_t warps) const {
    const std::int64_t down = parts_of(extent(step.row), 16), columns = parts_of(extent(step.column), 8);
    const std::vector<const tile::Dot*> chained = chained_of(step);
    const auto products = [](std::int64_t inner, std::int64_t loads, std::int64_t width) {
      return inner * (loads + 4 * parts_of(width, 2) + 2 * width);
    };
    std::vector<Width> widths;
    for (std::int64_t width = 1; width <= columns; ++width) {
      if (!takes_width(step, width)) continue;
      std::int64_t tile = width * 24;  // what is done with its elements
      for (const tile::Dot* dot : dots_of(step))
        tile += products(parts_of(extent(dot->contract), 16), holds_rows(step) ? 0 : 4, width);
      for (const tile::Dot* dot : chained)
        tile += products(parts_of(width, 2), 0, parts_of(extent(column_of(kernel_, *dot)), 8));
      const std::int64_t right = parts_of(columns, width);
      const std::int64_t turns =
          chained.empty() ? parts_of(down * right, warps) : parts_of(down, warps) * right;
      widths.push_back({turns * tile, width});
    }
    std::ranges::stable_sort(widths, {}, &Width::clocks);
    return widths;
  }

  bool takes_width(const BlockStep& step, std::int64_t width) const {
    const std::int64_t columns = parts_of(extent(step.column), 8);
    if (width < 1 || width > columns) return false;
    if (step.whole_rows) return width == columns;
    // A chained product takes 16 columns at once.
    if (!chained_of(step).empty() && width % 2 != 0 && width != columns) return false;
    // A row's threads exchange what they store in fours of 8 columns (store_tile).
    const bool stores =
        columns >= 4 && std::ranges::any_of(step.nodes, [&](const Node* node) {
          const auto* store = std::get_if<tile::Store>(node);
          return store != nullptr && tile::contains_lane(info(store->value).lanes, step.column);
        });
    if (stores && width % 4 != 0) return false;
    return width <= 4 || std::ssize(dots_of(step)) * 4 * width <= 48;
  }

  int modelled_threads() const {
    std::int64_t points = 1;
    for (const BlockStep& step : steps_)
      points = std::max(points, extent_of(kernel_, step.lanes) * extent_of(kernel_, step.reduced));
    int threads = kFewestThreads;
    while (threads < kMostBlockThreads && points > std::int64_t{threads} * 2) threads *= 2;
    return threads;
  }

  /// Products need several blocks to hide their waiting; long lists of sums need registers.
  BlockSchedule of_threads(int threads) const {
    const bool dots = std::any_of(steps_.begin(), steps_.end(),
                                  [](const BlockStep& step) { return step.kind == StepKind::dot; });
    return {threads, dots ? std::max(512 / threads, 1) : 1, {}};
  }

  /// Whether the kernel can be written so: what a recorded schedule must be.
  bool takes(const BlockSchedule& schedule) const {
    if (schedule.threads < 32 || schedule.threads > 1024 || schedule.threads % 32 != 0) return false;
    if (schedule.resident_blocks < 1 || schedule.resident_blocks > kResidentThreads / schedule.threads)
      return false;
    if (schedule.widths.size() != products_.size()) return false;
    for (std::size_t i = 0; i < products_.size(); ++i) {
      if (!takes_width(*products_[i], schedule.widths[i])) return false;
    }
    return true;
  }

  void take(const BlockSchedule& schedule) {
    plan_.threads = schedule.threads;
    plan_.resident_blocks = schedule.resident_blocks;
    for (std::size_t i = 0; i < products_.size(); ++i) {
      products_[i]->width = schedule.widths[i];
      products_[i]->held_rows = holds_rows(*products_[i]);
    }
  }

  const Kernel& kernel_;
  const DeviceTarget& target_;
  BlockPlan plan_;
  std::vector<BlockStep> steps_;
  std::vector<BlockStep*> products_;       // of the plan, on tensor cores
  std::vector<int> known_at_, last_read_;  // by value: steps
  std::set<std::int32_t> staged_, unstaged_, narrow_;
  int body_begin_ = 0, body_end_ = -1;
};

}  // namespace

std::optional<BlockPlan> plan_block(const Kernel& kernel, const DeviceTarget& target,
                                    const BlockSchedule* schedule) {
  return BlockPlanner(kernel, target).plan(schedule);
}

std::vector<BlockSchedule> block_schedules(const Kernel& kernel, const DeviceTarget& target,
                                           std::size_t most) {
  return BlockPlanner(kernel, target).schedules(most);
}

}  // namespace rewire::codegen::cuda
