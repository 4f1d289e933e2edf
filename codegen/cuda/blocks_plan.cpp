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
constexpr std::int64_t kTileRegisters = 144;    // of a thread, for the elements of products
constexpr std::int64_t kOtherRegisters = 60;    // and for all else
constexpr std::int64_t kRegisters = 65536;      // of a multiprocessor
constexpr std::int64_t kReservedShared = 1024;  // of a block, by the system

std::int64_t parts_of(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

class BlockPlanner {
 public:
  BlockPlanner(const Kernel& kernel, const DeviceTarget& target) : kernel_(kernel), target_(target) {
    plan_.values.resize(kernel.values.size());
    known_at_.resize(kernel.values.size(), -1);
  }

  std::optional<BlockPlan> plan() {
    find_definitions();
    while (true) {
      choose_narrow();
      choose_again();
      schedule();
      choose_homes();
      place_arrays();
      if (plan_.shared_bytes <= target_.shared_bytes_per_block) break;
      if (!unstage()) return std::nullopt;
    }
    choose_widths();
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
        known_at(result) = ready(node, BlockStep{});
        continue;
      }
      BlockStep step = step_of(node);
      const int first = std::max({ready(node, step), section_begin_, ordered(node)});
      const int index = join(step, node, first);
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
           !narrow_.contains(load->result.id) && value(load->result).home == BlockHome::local &&
           is_read_only(load->access);
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
      step = {StepKind::reduce, info(reduce->result).lanes, reduce->axes, {}};
    } else if (const auto* dot = std::get_if<tile::Dot>(&node)) {
      step.kind = StepKind::dot;
      if (on_tensor_cores(*dot)) {
        step.kind = StepKind::tensor_dot;
        step.lanes = info(dot->result).lanes;
        step.row = other_lane(dot->a, dot->contract);
        step.column = other_lane(dot->b, dot->contract);
      }
    }
    return step;
  }

  std::int32_t other_lane(TileValue of, std::int32_t lane) const {
    const Lanes& lanes = info(of).lanes;
    return lanes[0] == lane ? lanes[1] : lanes[0];
  }
  std::int64_t extent(std::int32_t axis) const { return kernel_.axes[static_cast<std::size_t>(axis)].extent; }

  /// The first step in which all operands are known.
  int ready(const Node& node, const BlockStep& step) {
    int first = 0;
    for (TileValue operand : tile::operands_of(node)) first = std::max(first, ready_after(operand, step));
    return first;
  }

  /// The step of the operand itself where both run point by point over the same lanes, or by every thread, or
  /// where the reader can do with the elements of a product that its own thread holds.
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
    if (step.kind == StepKind::loop) return step.lanes == product.lanes;
    return step.kind == StepKind::reduce && step.reduced == Lanes{product.column} &&
           step.lanes == Lanes{product.row} && fits(product, dots_of(product), true);
  }
  static std::int64_t dots_of(const BlockStep& step) {
    return std::count_if(step.nodes.begin(), step.nodes.end(),
                         [](const Node* node) { return std::holds_alternative<tile::Dot>(*node); });
  }
  /// Whether registers hold a tile of so many products.
  bool fits(const BlockStep& product, std::int64_t dots, bool whole_rows) const {
    return dots * 4 * (whole_rows ? parts_of(extent(product.column), 8) : 2) <= kTileRegisters;
  }

  int join(const BlockStep& step, const Node& node, int first) {
    for (int i = first; i < static_cast<int>(steps_.size()); ++i) {
      BlockStep& other = steps_[static_cast<std::size_t>(i)];
      if (other.kind == StepKind::tensor_dot && step.kind == StepKind::tensor_dot) {
        if (other.row == step.row && other.column == step.column &&
            fits(other, dots_of(other) + 1, other.whole_rows))
          return i;
      } else if (runs_within(step, other)) {
        if (!reads_of(node, i)) continue;
        other.whole_rows = other.whole_rows || step.kind == StepKind::reduce;
        return i;
      } else if (step.kind != StepKind::dot && other.kind == step.kind && other.lanes == step.lanes &&
                 other.reduced == step.reduced) {
        return i;
      }
    }
    steps_.push_back(step);
    return static_cast<int>(steps_.size()) - 1;
  }

  /// Whether a node reads what a step computes.
  bool reads_of(const Node& node, int step) {
    const auto operands = tile::operands_of(node);
    return std::any_of(operands.begin(), operands.end(), [&](TileValue operand) {
      const BlockValue& source = value(operand);
      if (source.home == BlockHome::again) return reads_of(*source.node, step);
      return source.node != nullptr && known_at(operand) == step;
    });
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
    SharedArray array{of.dtype, narrow, of.lanes, 1, 0, 0};
    const std::int64_t last = extent(of.lanes.back());
    // Odd: columns, or narrow rows of 16 bytes, lie in distinct banks.
    array.pitch = narrow ? (parts_of(last, 8) | 1) * 8 : of.lanes.size() == 2 && last > 1 ? last | 1 : last;
    const std::int64_t elements = extent_of(kernel_, of.lanes) / last * array.pitch;
    const std::size_t wide =
        of.dtype == ir::DType::bf16 || of.dtype == ir::DType::f16 ? 4 : ir::dtype_bytes(of.dtype);
    array.bytes = (elements * static_cast<std::int64_t>(narrow ? 2 : wide) + 15) / 16 * 16;
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
  void choose_widths() {
    const std::vector<BlockStep*> products = steps_of(StepKind::tensor_dot);
    if (products.empty()) return choose_threads();
    const auto time = [&](std::int64_t warps) {
      std::int64_t total = 0;
      for (BlockStep* step : products) total += choose_width(*step, warps);
      return total;
    };
    std::int64_t best = time(8);
    for (std::int64_t warps = 4; warps < 8; ++warps) best = std::min(best, time(warps));
    std::int64_t warps = 4;
    while (warps < 8 && time(warps) * 10 > best * 11) ++warps;
    time(warps);
    plan_.threads = static_cast<int>(warps * 32);
    std::int64_t registers = 0;
    for (const BlockStep* step : products) registers = std::max(registers, dots_of(*step) * 4 * step->width);
    registers = std::min<std::int64_t>((registers + kOtherRegisters + 7) / 8 * 8, 255);
    const std::int64_t blocks =
        std::min(kRegisters / (registers * plan_.threads),
                 (target_.shared_bytes_per_block + kReservedShared) / (plan_.shared_bytes + kReservedShared));
    plan_.resident_blocks = static_cast<int>(std::clamp<std::int64_t>(blocks, 1, 2048 / plan_.threads));
  }

  /// The width of a warp's tiles with which a step takes least time; returns that, in clocks about.
  std::int64_t choose_width(BlockStep& step, std::int64_t warps) const {
    const std::int64_t down = parts_of(extent(step.row), 16), columns = parts_of(extent(step.column), 8);
    const std::int64_t dots = dots_of(step);
    // A row's threads exchange what they store in fours of 8 columns (store_tile).
    const bool stores =
        columns >= 4 && std::any_of(step.nodes.begin(), step.nodes.end(), [](const Node* node) {
          return std::holds_alternative<tile::Store>(*node);
        });
    std::int64_t best = 0;
    for (std::int64_t width = 1; width <= columns; ++width) {
      if (step.whole_rows ? width < columns : width > 4 && dots * 4 * width > 48) continue;
      if (!step.whole_rows && stores && width % 4 != 0) continue;
      std::int64_t tile = width * 24;  // what is done with its elements
      for (const Node* node : step.nodes) {
        if (const auto* dot = std::get_if<tile::Dot>(node))
          tile += parts_of(extent(dot->contract), 16) * (4 + 4 * parts_of(width, 2) + 2 * width);
      }
      const std::int64_t time = parts_of(down * parts_of(columns, width), warps) * tile;
      if (best > 0 && time >= best) continue;
      best = time;
      step.width = width;
    }
    return best;
  }

  void choose_threads() {
    std::int64_t points = 1;
    for (const BlockStep& step : steps_)
      points = std::max(points, extent_of(kernel_, step.lanes) * extent_of(kernel_, step.reduced));
    plan_.threads = 64;
    while (plan_.threads < 256 && points > std::int64_t{plan_.threads} * 2) plan_.threads *= 2;
    // Products need several blocks to hide their waiting; long lists of sums need registers.
    if (!steps_of(StepKind::dot).empty()) plan_.resident_blocks = std::max(512 / plan_.threads, 1);
  }

  const Kernel& kernel_;
  const DeviceTarget& target_;
  BlockPlan plan_;
  std::vector<BlockStep> steps_;
  std::vector<int> known_at_, last_read_;  // by value: steps
  std::set<std::int32_t> staged_, unstaged_, deferred_, narrow_;
  std::map<std::int32_t, int> touched_;
  int section_begin_ = 0, body_begin_ = 0, body_end_ = -1;
};

}  // namespace

std::optional<BlockPlan> plan_block(const Kernel& kernel, const DeviceTarget& target) {
  return BlockPlanner(kernel, target).plan();
}

}  // namespace rewire::codegen::cuda
