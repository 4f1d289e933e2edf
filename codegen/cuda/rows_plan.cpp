// Levels, homes and sizes of a row kernel; see rows_plan.h.
#include "codegen/cuda/rows_plan.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <numeric>

#include "codegen/cuda/kernel_text.h"
#include "codegen/tile/walk.h"

namespace rewire::codegen::cuda {
namespace {

using tile::AxisUse;
using tile::Kernel;
using tile::Node;
using tile::TileValue;

constexpr int kBlockThreads = 256;
constexpr int kLiveRegisters = 96;                      // what a thread's arrays may take together
constexpr int kSideBySide = 64;                         // lanes that a group should span at least
constexpr int kCrowded = 10000;                         // the cost from which on nothing fits
constexpr int kFewRegisters = 20, kSomeRegisters = 64;  // of a thread's arrays
constexpr int kRegistersPerBlock = 65536;
constexpr int kWantedElements = 12;          // of a thread: enough loads in flight, few registers
constexpr std::int64_t kMergeBytes = 49152;  // shared memory for the groups' carried values

class RowPlanner {
 public:
  RowPlanner(const Kernel& kernel, const DeviceTarget& target) : kernel_(kernel), target_(target) {
    plan_.lane_axes = axes_of(kernel, AxisUse::lane);
    plan_.lanes = extent_of(kernel, plan_.lane_axes);
    plan_.homes.resize(kernel.values.size());
  }

  std::optional<RowsPlan> plan() {
    if (!is_row_kernel()) return std::nullopt;
    count_uses();
    plan_carried();
    plan_.prologue = level_section(kernel_.prologue, SectionId::prologue);
    for (const tile::Carried& carried : kernel_.carried) known(carried.entry, SectionId::body);
    plan_.body = level_section(kernel_.body, SectionId::body);
    for (const tile::Carried& carried : kernel_.carried) known(carried.last, SectionId::epilogue);
    plan_.epilogue = level_section(kernel_.epilogue, SectionId::epilogue);
    choose_homes();
    choose_grid();
    return std::move(plan_);
  }

 private:
  const tile::ValueInfo& info(TileValue value) const {
    return kernel_.values[static_cast<std::size_t>(value.id)];
  }
  ValueHome& home(TileValue value) { return plan_.homes[static_cast<std::size_t>(value.id)]; }
  std::int64_t extent(std::int32_t axis) const { return kernel_.axes[static_cast<std::size_t>(axis)].extent; }

  template <class Visit>
  void visit_nodes(Visit visit) const {
    for (const auto* section : {&kernel_.prologue, &kernel_.body, &kernel_.epilogue}) {
      for (const Node& node : *section) visit(node);
    }
  }

  bool is_row_kernel() const {
    bool rows = true;
    visit_nodes([&](const Node& node) {
      if (std::holds_alternative<tile::Dot>(node)) rows = false;
      const auto* reduce = std::get_if<tile::Reduce>(&node);
      if (reduce != nullptr && reduce->axes != plan_.lane_axes) rows = false;
    });
    for (const tile::Carried& carried : kernel_.carried) {
      const auto& lanes = info(carried.entry).lanes;
      rows = rows && (lanes.empty() || lanes == plan_.lane_axes);
    }
    return rows;
  }

  void count_uses() {
    visit_nodes([&](const Node& node) {
      for (TileValue operand : tile::operands_of(node)) ++home(operand).uses;
    });
    for (const tile::Carried& carried : kernel_.carried) {
      ++home(carried.initial).uses;
      ++home(carried.next).uses;
    }
  }

  void plan_carried() {
    for (const tile::Carried& carried : kernel_.carried) {
      CarriedPlan own;
      for (const Node& node : kernel_.body) {
        const auto* op = std::get_if<tile::Pointwise>(&node);
        if (op == nullptr || op->result != carried.next) continue;
        const bool sum = op->code == ir::Opcode::add, max = op->code == ir::Opcode::maximum;
        if ((!sum && !max) || home(carried.entry).uses != 1 || home(carried.next).uses != 1) continue;
        if (op->operands[0] != carried.entry && op->operands[1] != carried.entry) continue;
        own = {sum ? tile::ReduceKind::sum : tile::ReduceKind::max, &node,
               op->operands[0] == carried.entry ? op->operands[1] : op->operands[0]};
      }
      plan_.carried.push_back(own);
    }
  }

  // --- levels

  void known(TileValue value, SectionId section, int level = 0) {
    home(value).section = section;
    home(value).level = level;
    home(value).lane = !info(value).lanes.empty();
  }

  /// A value of an earlier section is known from the start.
  int level_of(TileValue value, SectionId section) {
    return home(value).section == section ? home(value).level : 0;
  }

  Section level_section(const std::vector<Node>& nodes, SectionId id) {
    Section section;
    loaded_.clear();
    stored_.clear();
    for (const Node& node : nodes) {
      int level = 0;
      for (TileValue operand : tile::operands_of(node)) level = std::max(level, level_of(operand, id));
      level = ordered(node, level);
      if (const TileValue result = tile::result_of(node))
        known(result, id, level + (std::holds_alternative<tile::Reduce>(node) ? 1 : 0));
      section.nodes.push_back({&node, level});
      section.levels = std::max(section.levels, level + 1);
    }
    return section;
  }

  /// Loads and stores of one argument keep their order: a level runs scalars, loads of rows, its loop, stores
  /// of rows.
  int ordered(const Node& node, int level) {
    const tile::Access* access = tile::access_of(node);
    if (access == nullptr || std::holds_alternative<tile::Random>(node)) return level;
    const std::int32_t argument = access->argument;
    if (kernel_.arguments[static_cast<std::size_t>(argument)].use != tile::ArgumentUse::read_write)
      return level;
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

  // --- homes

  struct Reader {
    SectionId section{};
    int level = 0;
    const Node* node = nullptr;
  };

  void choose_homes() {
    for (const auto& [id, section] : sections()) {
      for (const LeveledNode& leveled : section->nodes) {
        for (TileValue operand : tile::operands_of(*leveled.node))
          readers_[operand.id].push_back({id, leveled.level, leveled.node});
      }
    }
    for (const auto& [id, section] : sections()) {
      for (const LeveledNode& leveled : section->nodes) choose_home(*leveled.node, id, leveled.level);
    }
    for (std::size_t i = 0; i < kernel_.carried.size(); ++i) {
      const tile::Carried& carried = kernel_.carried[i];
      if (info(carried.entry).lanes.empty()) continue;
      for (TileValue value : {carried.entry, carried.last}) home(value).array = true;
      if (!plan_.carried[i].additive) keep(carried.next);
      if (!is_immediate(carried.initial)) keep(carried.initial);
    }
  }

  void keep(TileValue value) {
    home(value).array = true;
    home(value).again = home(value).inlined = false;
  }

  std::vector<std::pair<SectionId, const Section*>> sections() const {
    return {{SectionId::prologue, &plan_.prologue},
            {SectionId::body, &plan_.body},
            {SectionId::epilogue, &plan_.epilogue}};
  }

  /// A constant or an index: written where it is read.
  bool is_immediate(TileValue value) const { return immediates_.contains(value.id); }

  void choose_home(const Node& node, SectionId section, int level) {
    const TileValue result = tile::result_of(node);
    if (!result) return;
    ValueHome& own = home(result);
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
          return is_immediate(operand) || home(operand).again;
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
           info(op->result).lanes.empty();
  }
  bool loads_row(const tile::Load& load) const {
    return lane_pattern(kernel_, load.access) == LanePattern::contiguous &&
           (!load.index || info(load.index).lanes.empty());
  }
  bool stores_row(const Node& node) const {
    const auto* store = std::get_if<tile::Store>(&node);
    return store != nullptr && lane_pattern(kernel_, store->access) == LanePattern::contiguous;
  }

  // --- sizes

  void choose_grid() {
    const bool rows = !axes_of(kernel_, AxisUse::row).empty();
    plan_.outer = extent_of(kernel_, axes_of(kernel_, AxisUse::outer));
    plan_.rows = kernel_.row_count();
    plan_.by_partition = walks_parts(kernel_);
    if (!rows) std::swap(plan_.outer, plan_.rows);  // each outer point is a row
    choose_vector();
    if (cuts_lanes()) {
      cut_lanes();
    } else {
      hold_row();
    }
    choose_groups();
    const int arrays = live_arrays() * plan_.elements();
    const int resident = arrays <= kFewRegisters ? 1024 : arrays <= kSomeRegisters ? 512 : 1;
    // No more than there are to run: a few blocks may have all registers.
    const std::int64_t share = (plan_.blocks() + target_.multiprocessors - 1) / target_.multiprocessors;
    plan_.resident_blocks =
        static_cast<int>(std::clamp<std::int64_t>(resident / plan_.block_threads(), 1, share));
  }

  bool has_reduction() const {
    bool found = false;
    visit_nodes([&](const Node& node) { found = found || std::holds_alternative<tile::Reduce>(node); });
    return found;
  }

  /// Blocks may run in any order: what a kernel reads and writes it must touch at one place a row and lane.
  bool must_be_one_block() const {
    std::map<std::int32_t, const tile::Access*> first;
    bool shared = false;
    visit_nodes([&](const Node& node) {
      const tile::Access* access = tile::access_of(node);
      if (access == nullptr || std::holds_alternative<tile::Random>(node)) return;
      if (kernel_.arguments[static_cast<std::size_t>(access->argument)].use != tile::ArgumentUse::read_write)
        return;
      const auto [known, fresh] = first.try_emplace(access->argument, access);
      if (!fresh && (known->second->offset != access->offset || known->second->strides != access->strides))
        shared = true;
      for (std::size_t axis = 0; axis < kernel_.axes.size(); ++axis)
        shared = shared || (kernel_.axes[axis].extent > 1 && access->strides[axis] == 0);
    });
    return shared;
  }

  bool cuts_lanes() const { return !has_reduction() && !must_be_one_block(); }

  /// 16 bytes of the narrowest dtype that is read or written row by row.
  void choose_vector() {
    std::int64_t bytes = 16;
    visit_nodes([&](const Node& node) {
      const tile::Access* access = tile::access_of(node);
      if (access == nullptr || std::holds_alternative<tile::Random>(node)) return;
      if (lane_pattern(kernel_, *access) != LanePattern::contiguous) return;
      const auto dtype = kernel_.arguments[static_cast<std::size_t>(access->argument)].dtype;
      bytes = std::min(bytes, static_cast<std::int64_t>(ir::dtype_bytes(dtype)));
    });
    const std::int64_t most = bytes == 16 ? 1 : std::min<std::int64_t>(16 / bytes, 8);
    plan_.vector = static_cast<int>(std::gcd(plan_.lanes, most));
  }

  /// Arrays alive at once, in registers an element.
  int live_arrays() {
    int carried = 0, most = 0;
    for (const tile::Carried& value : kernel_.carried) carried += info(value.entry).lanes.empty() ? 0 : 1;
    for (const auto& [id, section] : sections()) {
      for (int level = 0; level < section->levels; ++level) most = std::max(most, live_at(id, level));
    }
    return carried + most;
  }

  int live_at(SectionId section, int level) {
    int live = 0;
    for (std::size_t id = 0; id < plan_.homes.size(); ++id) {
      const ValueHome& own = plan_.homes[id];
      if (!own.array || own.section > section || (own.section == section && own.level > level)) continue;
      const std::vector<Reader>& readers = readers_[static_cast<std::int32_t>(id)];
      const bool read_later = std::any_of(readers.begin(), readers.end(), [&](const Reader& reader) {
        return reader.section > section || (reader.section == section && reader.level >= level) ||
               (own.section == SectionId::prologue && reader.section == SectionId::body);
      });
      const auto dtype = kernel_.values[id].dtype;
      if (read_later) live += dtype == ir::DType::f64 || dtype == ir::DType::i64 ? 2 : 1;
    }
    return live;
  }

  std::int64_t vectors() const { return plan_.lanes / plan_.vector; }

  /// Percent of the elements of `threads` threads with `chunks` vectors each that are no lanes.
  int waste(int threads, int chunks, int vector) const {
    const std::int64_t span = std::int64_t{threads} * chunks * vector;
    const std::int64_t spans = (plan_.lanes + span - 1) / span;
    return static_cast<int>(100 - 100 * plan_.lanes / (spans * span));
  }

  /// A group's threads, for rows that stay whole: part of a warp, or where that takes too many registers, a
  /// block. Where nothing fits, what comes nearest.
  void hold_row() {
    const int widest = plan_.vector, live = std::max(live_arrays(), 1);
    const int wanted = std::min(kWantedElements, std::max(kLiveRegisters / live, 1));
    int best = std::numeric_limits<int>::max();
    const auto consider = [&](int threads, int vector) {
      const auto chunks = static_cast<int>((plan_.lanes / vector + threads - 1) / threads);
      const int elements = chunks * vector;
      const int allowed = std::min(255, kRegistersPerBlock / std::max(threads, kBlockThreads)) * 3 / 4 - 32;
      int cost = 4 * waste(threads, chunks, vector) + 3 * std::abs(elements - wanted) +
                 8 * std::countr_zero(static_cast<unsigned>(widest / vector));
      if (threads > 32) cost += 60;
      if (elements * live > std::min(kLiveRegisters, allowed)) cost = kCrowded + elements * live - allowed;
      if (cost >= best) return;
      best = cost;
      plan_.threads = threads;
      plan_.chunks = chunks;
      plan_.vector = vector;
    };
    for (int vector = widest; vector >= 1; vector /= 2) {
      for (int threads = 1; threads <= 32; threads *= 2) consider(threads, vector);
      for (int threads = 64; threads <= 1024; threads += 32) consider(threads, vector);
    }
    plan_.crowded = best >= kCrowded;
  }

  /// A group's threads and elements, for lanes that need nothing of each other.
  void cut_lanes() {
    const int live = std::max(live_arrays(), 1);
    while (plan_.vector > 1 && plan_.vector * live > kLiveRegisters) plan_.vector /= 2;
    const int budget = std::max(kLiveRegisters / live, plan_.vector);
    const int most = plan_.by_partition ? 32 : kBlockThreads;
    const std::int64_t all = plan_.rows * plan_.outer * vectors();
    const std::int64_t filled = all / (std::int64_t{target_.multiprocessors} * 1024);
    int best = -1;
    for (int threads = 1; threads <= most; threads *= 2) {
      for (int chunks = 1; chunks <= 4 && chunks * plan_.vector <= budget; ++chunks) {
        if (chunks > 1 && chunks > filled) continue;      // more threads first
        const int side_by_side = threads * plan_.vector;  // lanes that neighbours load at once
        const bool cut_short = side_by_side < kSideBySide && side_by_side * chunks < plan_.lanes;
        const int cost = 4 * waste(threads, chunks, plan_.vector) + (4 - chunks) * 5 +
                         3 * kSideBySide / std::min(side_by_side, kSideBySide) + (cut_short ? 100 : 0);
        if (best >= 0 && cost >= best) continue;
        best = cost;
        plan_.threads = threads;
        plan_.chunks = chunks;
      }
    }
    const std::int64_t span = std::int64_t{plan_.threads} * plan_.chunks;
    plan_.lane_blocks = (vectors() + span - 1) / span;
  }

  void choose_groups() {
    const std::int64_t walked = plan_.by_partition ? kernel_.rows_per_partition() : plan_.rows;
    if (plan_.threads > 32 && !cuts_lanes()) {
      plan_.groups = 1;
    } else {
      plan_.groups = std::max(kBlockThreads / plan_.threads, 1);
      while (plan_.groups * plan_.threads > 32 && plan_.groups / 2 >= walked) plan_.groups /= 2;
      if (plan_.by_partition) limit_merge();
    }
    if (plan_.by_partition) {
      if (!plan_.adds_up()) plan_.groups = std::max(1, 32 / plan_.threads);
      plan_.row_blocks = kernel_.partitions;
    } else {
      choose_repeats();
    }
  }

  void limit_merge() {
    const auto bytes = [&] { return std::int64_t{plan_.block_threads()} * plan_.elements() * 8; };
    while (bytes() > kMergeBytes && plan_.block_threads() > 64 && plan_.groups > 1) plan_.groups /= 2;
  }

  /// Rows that share what the prologue loaded, as long as every multiprocessor has blocks to choose from.
  void choose_repeats() {
    const bool shares = std::any_of(plan_.homes.begin(), plan_.homes.end(), [](const ValueHome& own) {
      return own.array && own.section == SectionId::prologue;
    });
    if (must_be_one_block()) {
      plan_.repeats = static_cast<int>((plan_.rows + plan_.groups - 1) / plan_.groups);
    } else if (shares && !axes_of(kernel_, AxisUse::row).empty()) {
      const std::int64_t blocks =
          plan_.outer * (plan_.rows + plan_.groups - 1) / plan_.groups * plan_.lane_blocks;
      plan_.repeats = static_cast<int>(
          std::clamp<std::int64_t>(blocks / (std::int64_t{target_.multiprocessors} * 8), 1, 8));
    }
    const std::int64_t step = std::int64_t{plan_.groups} * plan_.repeats;
    plan_.row_blocks = (plan_.rows + step - 1) / step;
  }

  const Kernel& kernel_;
  const DeviceTarget& target_;
  RowsPlan plan_;
  std::map<std::int32_t, int> loaded_, stored_;  // by argument: the levels of what must stay in order
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

int aligned_lanes(const Kernel& kernel, const tile::Access& access, std::int64_t index_stride, int most) {
  std::int64_t divisor = most;
  const auto take = [&](std::int64_t stride) { divisor = std::gcd(divisor, stride); };
  take(access.offset);
  take(index_stride);
  if (kernel.partitions > 1) take(access.part_stride);
  for (std::size_t axis = 0; axis < kernel.axes.size(); ++axis) {
    if (kernel.axes[axis].use != AxisUse::lane && kernel.axes[axis].extent > 1) take(access.strides[axis]);
  }
  return static_cast<int>(divisor);
}

std::optional<RowsPlan> plan_rows(const Kernel& kernel, const DeviceTarget& target) {
  return RowPlanner(kernel, target).plan();
}

}  // namespace rewire::codegen::cuda
