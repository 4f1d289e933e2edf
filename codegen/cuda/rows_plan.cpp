// Levels, homes and sizes of a row kernel; see rows_plan.h.
#include "codegen/cuda/rows_plan.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/rows_registers.h"
#include "codegen/tile/walk.h"
#include "ir/opcodes.h"

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
constexpr int kLeastRegisters = 8;                      // so few that kMostResident threads have enough
constexpr int kNear = 100;                              // a cut that costs more is not tried
constexpr int kMostChunks = 4;                          // of lanes that are cut
constexpr int kMostElements = 256;                      // of a thread, in any schedule but the model's
constexpr int kMostRepeats = 64;
constexpr int kRegistersPerBlock = 65536;
constexpr int kRegistersOfThread = 255;
constexpr int kMostPartBlocks = 4;   // of a multiprocessor, that walk parts and wait for memory in turn
constexpr int kBesideArrays = 48;    // registers of such a thread that hold no array
constexpr int kBesideRow = 24;       // of a thread of a block row that hold neither an array nor a scalar
constexpr int kWantedElements = 12;  // of a thread: enough loads in flight, few registers
constexpr std::int64_t kMergeBytes = 49152;  // shared memory for the groups' carried values

class RowPlanner {
 public:
  RowPlanner(const Kernel& kernel, const DeviceTarget& target) : kernel_(kernel), target_(target) {
    plan_.lane_axes = axes_of(kernel, AxisUse::lane);
    plan_.lanes = extent_of(kernel, plan_.lane_axes);
    plan_.homes.resize(kernel.values.size());
  }

  /// nullopt: the kernel is of another kind, or the schedule is not for it.
  std::optional<RowsPlan> plan(const RowsSchedule* schedule) {
    if (!prepare()) return std::nullopt;
    if (schedule != nullptr && !takes(*schedule)) return std::nullopt;
    take(schedule != nullptr ? *schedule : modelled());
    return std::move(plan_);
  }

  /// The cost model's first. Others keep to registers that there is room for.
  std::vector<RowsSchedule> schedules(std::size_t most) {
    if (!prepare()) return {};
    const RowsSchedule model = modelled();
    std::vector<RowsSchedule> list = {model};
    const auto add = [&](const RowsSchedule& next) {
      if (list.size() < most && has_room(next) && takes(next) && std::ranges::find(list, next) == list.end())
        list.push_back(next);
    };
    const std::vector<Cut> all = cuts();
    const auto add_cuts = [&](std::size_t count) {
      const int worst = std::min(all[0].cost + kNear, kCrowded - 1);
      for (std::size_t i = 1; i < all.size() && all[i].cost <= worst && count > 0; ++i) {
        const std::size_t before = list.size();
        add(completed(all[i], kBlockThreads));
        count -= list.size() - before;
      }
    };
    const auto add_with = [&](int RowsSchedule::* number, int value) {
      RowsSchedule next = model;
      next.*number = value;
      add(next);
    };
    if (walks_alone()) {
      for (const int resident : {2, kMostPartBlocks}) add_with(&RowsSchedule::resident_blocks, resident);
    }
    if (is_block_of_many(model)) {
      for (const int more : {1, -1, 2})
        add_with(&RowsSchedule::resident_blocks, model.resident_blocks + more);
    }
    add_cuts(1);
    if (shares_prologue() && std::int64_t{model.repeats} * model.groups < plan_.rows)
      add_with(&RowsSchedule::repeats, 2 * model.repeats);
    add(completed(all[0], kBlockThreads / 2));
    add_cuts(1);
    add(completed(all[0], kBlockThreads * 2));
    add_with(&RowsSchedule::resident_blocks, std::max(kMostResident / model.block_threads(), 1));
    if (shares_prologue()) add_with(&RowsSchedule::repeats, 1);
    add_cuts(most);
    return list;
  }

 private:
  /// Levels, homes and extents. False: the kernel is of another kind.
  bool prepare() {
    if (!is_row_kernel()) return false;
    count_uses();
    plan_carried();
    plan_.prologue = level_section(kernel_.prologue, SectionId::prologue);
    for (const tile::Carried& carried : kernel_.carried) known(carried.entry, SectionId::body);
    plan_.body = level_section(kernel_.body, SectionId::body);
    for (const tile::Carried& carried : kernel_.carried) known(carried.last, SectionId::epilogue);
    plan_.epilogue = level_section(kernel_.epilogue, SectionId::epilogue);
    choose_homes();
    measure();
    return true;
  }

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

  /// A scalar is loaded where it is read first: until then it would take a register of every thread.
  void sink_scalar_loads(Section& section, SectionId id) {
    std::map<std::int32_t, int> first;
    for (const LeveledNode& leveled : section.nodes) {
      for (TileValue operand : tile::operands_of(*leveled.node)) {
        const auto [read, fresh] = first.try_emplace(operand.id, leveled.level);
        read->second = std::min(read->second, leveled.level);
      }
    }
    for (LeveledNode& leveled : section.nodes) {
      const auto* load = std::get_if<tile::Load>(leveled.node);
      if (load == nullptr || load->index || !tile::iteration_lanes(kernel_, *load).empty()) continue;
      if (kernel_.arguments[static_cast<std::size_t>(load->access.argument)].use ==
          tile::ArgumentUse::read_write)
        continue;
      const auto read = first.find(load->result.id);
      if (read == first.end() || read->second <= leveled.level) continue;
      leveled.level = read->second;
      known(load->result, id, leveled.level);
    }
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

  void measure() {
    const bool rows = !axes_of(kernel_, AxisUse::row).empty();
    plan_.outer = extent_of(kernel_, axes_of(kernel_, AxisUse::outer));
    plan_.rows = kernel_.row_count();
    plan_.by_partition = walks_parts(kernel_);
    if (!rows) std::swap(plan_.outer, plan_.rows);  // each outer point is a row
    widest_ = widest_vector();
    count_registers();
    if (!has_many_arrays()) return;
    sink_scalar_loads(plan_.prologue, SectionId::prologue);
    sink_scalar_loads(plan_.body, SectionId::body);
    sink_scalar_loads(plan_.epilogue, SectionId::epilogue);
    count_registers();
  }
  void count_registers() {
    const LiveRegisters live = live_registers(kernel_, plan_);
    live_ = live.arrays;
    scalars_ = live.scalars;
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
  /// Whether rows that stay whole have so many that a thread could not hold four elements of each.
  bool has_many_arrays() const { return !cuts_lanes() && 4 * live_ > kLiveRegisters; }

  /// 16 bytes of the narrowest dtype that is read or written row by row.
  int widest_vector() const {
    std::int64_t bytes = 16;
    visit_nodes([&](const Node& node) {
      const tile::Access* access = tile::access_of(node);
      if (access == nullptr || std::holds_alternative<tile::Random>(node)) return;
      if (lane_pattern(kernel_, *access) != LanePattern::contiguous) return;
      const auto dtype = kernel_.arguments[static_cast<std::size_t>(access->argument)].dtype;
      bytes = std::min(bytes, static_cast<std::int64_t>(ir::dtype_bytes(dtype)));
    });
    const std::int64_t most = bytes == 16 ? 1 : std::min<std::int64_t>(16 / bytes, 8);
    return static_cast<int>(std::gcd(plan_.lanes, most));
  }

  /// Percent of the elements of `threads` threads with `chunks` vectors each that are no lanes.
  int waste(int threads, int chunks, int vector) const {
    const std::int64_t span = std::int64_t{threads} * chunks * vector;
    const std::int64_t spans = (plan_.lanes + span - 1) / span;
    return static_cast<int>(100 - 100 * plan_.lanes / (spans * span));
  }

  /// How the lanes of a row lie in a group's threads.
  struct Cut {
    int vector = 1, threads = 1, chunks = 1;
    int cost = 0;
  };

  /// The best first; kCrowded and more: it takes too many registers.
  std::vector<Cut> cuts() const {
    std::vector<Cut> list = cuts_lanes() ? cuts_of_lanes() : cuts_of_rows();
    std::ranges::stable_sort(list, {}, &Cut::cost);
    return list;
  }

  /// For rows that stay whole: part of a warp, or where that takes too many registers, a block.
  std::vector<Cut> cuts_of_rows() const {
    const int live = std::max(live_, 1);
    std::vector<Cut> list;
    const auto consider = [&](int threads, int vector) {
      const auto chunks = static_cast<int>((plan_.lanes / vector + threads - 1) / threads);
      const int elements = chunks * vector;
      const int allowed = allowed_of_rows(threads);
      const int wanted = std::clamp(allowed / live, 1, kWantedElements);
      int cost = 4 * waste(threads, chunks, vector) + 3 * std::abs(elements - wanted) +
                 8 * std::countr_zero(static_cast<unsigned>(widest_ / vector));
      if (threads > 32) cost += 60;
      if (elements * live > allowed) cost = kCrowded + elements * live - allowed;
      list.push_back({vector, threads, chunks, cost});
    };
    for (int vector = widest_; vector >= 1; vector /= 2) {
      for (int threads = 1; threads <= 32; threads *= 2) consider(threads, vector);
      for (int threads = 64; threads <= kMostThreads; threads += 32) consider(threads, vector);
    }
    return list;
  }
  /// Registers that a thread's arrays may take, all of them alive. Of many arrays in a block's row all that there
  /// are: the fewer threads share a row, the fewer hold its scalars, and the more rows are under way.
  int allowed_of_rows(int threads) const {
    if (threads <= 32 || !has_many_arrays()) {
      const int of_a_thread =
          std::min(kRegistersOfThread, kRegistersPerBlock / std::max(threads, kBlockThreads));
      return std::min(kLiveRegisters, of_a_thread * 3 / 4 - 32);
    }
    return (std::min(kRegistersOfThread, kRegistersPerBlock / threads) - kBesideRow - scalars_) * 3 / 2;
  }
  /// Of a thread of a block row of many arrays. Of what a level reads and writes about two thirds are alive at once. Where that
  /// is too few, the rest is spilled (up to 56 registers, of a row of 22 streams), and another row under way makes up
  /// for it.
  int registers_of_row(int elements) const { return live_ * elements * 2 / 3 + scalars_ + kBesideRow; }

  /// For lanes that need nothing of each other.
  std::vector<Cut> cuts_of_lanes() const {
    const int live = std::max(live_, 1);
    int vector = widest_;
    while (vector > 1 && vector * live > kLiveRegisters) vector /= 2;
    const int budget = std::max(kLiveRegisters / live, vector);
    const std::int64_t all = plan_.rows * plan_.outer * (plan_.lanes / vector);
    const std::int64_t filled = all / (std::int64_t{target_.multiprocessors} * 1024);
    std::vector<Cut> list;
    for (int threads = 1; threads <= most_threads_of_lanes(); threads *= 2) {
      for (int chunks = 1; chunks <= kMostChunks && chunks * vector <= budget; ++chunks) {
        if (chunks > 1 && chunks > filled) continue;  // more threads first
        const int side_by_side = threads * vector;    // lanes that neighbours load at once
        const bool cut_short = side_by_side < kSideBySide && side_by_side * chunks < plan_.lanes;
        const int cost = 4 * waste(threads, chunks, vector) + (kMostChunks - chunks) * 5 +
                         3 * kSideBySide / std::min(side_by_side, kSideBySide) + (cut_short ? 100 : 0);
        list.push_back({vector, threads, chunks, cost});
      }
    }
    return list;
  }
  int most_threads_of_lanes() const { return plan_.by_partition ? 32 : kBlockThreads; }

  // --- schedules

  RowsSchedule modelled() {
    const Cut best = cuts().front();
    plan_.crowded = best.cost >= kCrowded;
    return completed(best, kBlockThreads);
  }

  RowsSchedule completed(const Cut& cut, int block_threads) const {
    RowsSchedule schedule{cut.vector, cut.threads, cut.chunks, 1, 1, 1};
    schedule.groups = groups_of(schedule, block_threads);
    schedule.repeats = repeats_of(schedule);
    const int arrays = live_ * schedule.elements();
    const int threads = arrays <= kFewRegisters ? 1024 : arrays <= kSomeRegisters ? 512 : 1;
    int resident = std::max(threads / schedule.block_threads(), walks_alone() ? 2 : 1);
    if (is_block_of_many(schedule)) resident = std::max(resident, resident_rows(schedule));
    // No more than there are to run: a few blocks may have all registers.
    const std::int64_t blocks = plan_.outer * row_blocks_of(schedule) * lane_blocks_of(schedule);
    const std::int64_t share = (blocks + target_.multiprocessors - 1) / target_.multiprocessors;
    schedule.resident_blocks = static_cast<int>(std::clamp<std::int64_t>(resident, 1, share));
    if (!has_room(schedule)) schedule.resident_blocks = 1;
    return schedule;
  }

  bool is_block_row(const RowsSchedule& schedule) const { return schedule.threads > 32 && !cuts_lanes(); }
  bool is_block_of_many(const RowsSchedule& schedule) const {
    return is_block_row(schedule) && has_many_arrays();
  }
  /// Of a block each, that registers suffice for. A multiprocessor's warps lie in four parts.
  int resident_rows(const RowsSchedule& schedule) const {
    const int warps_of_part = kRegistersPerBlock / 4 / 32 / registers_of_row(schedule.elements());
    return std::min(warps_of_part * 4 * 32, kMostResident) / schedule.block_threads();
  }

  /// Rows that are walked by groups: all, or a part's.
  int groups_of(const RowsSchedule& schedule, int block_threads) const {
    if (is_block_row(schedule)) return 1;
    if (plan_.by_partition && !plan_.adds_up()) return std::max(1, 32 / schedule.threads);
    const std::int64_t walked = plan_.by_partition ? kernel_.rows_per_partition() : plan_.rows;
    RowsSchedule next = schedule;
    next.groups = std::max(block_threads / next.threads, 1);
    while (next.block_threads() > 32 && next.groups / 2 >= walked) next.groups /= 2;
    while (plan_.by_partition && !merges_in_room(next)) next.groups /= 2;
    return next.groups;
  }

  /// Whether shared memory holds what groups have carried, to be added up.
  static bool merges_in_room(const RowsSchedule& schedule) {
    const std::int64_t bytes = std::int64_t{schedule.block_threads()} * schedule.elements() * 8;
    return bytes <= kMergeBytes || schedule.block_threads() <= 64 || schedule.groups == 1;
  }

  std::int64_t lane_blocks_of(const RowsSchedule& schedule) const {
    if (!cuts_lanes()) return 1;
    const std::int64_t span = std::int64_t{schedule.threads} * schedule.chunks;
    return (plan_.lanes / schedule.vector + span - 1) / span;
  }

  std::int64_t row_blocks_of(const RowsSchedule& schedule) const {
    const std::int64_t step = std::int64_t{schedule.groups} * schedule.repeats;
    return plan_.by_partition ? kernel_.partitions : (plan_.rows + step - 1) / step;
  }

  /// Whether rows share what the prologue loaded, so that a group may walk several.
  bool shares_prologue() const {
    return !plan_.by_partition && !must_be_one_block() && !axes_of(kernel_, AxisUse::row).empty() &&
           std::any_of(plan_.homes.begin(), plan_.homes.end(),
                       [](const ValueHome& own) { return own.array && own.section == SectionId::prologue; });
  }

  /// As long as every multiprocessor has blocks to choose from.
  int repeats_of(const RowsSchedule& schedule) const {
    if (plan_.by_partition) return 1;
    if (must_be_one_block()) return static_cast<int>((plan_.rows + schedule.groups - 1) / schedule.groups);
    if (!shares_prologue()) return 1;
    const std::int64_t blocks =
        plan_.outer * (plan_.rows + schedule.groups - 1) / schedule.groups * lane_blocks_of(schedule);
    return static_cast<int>(
        std::clamp<std::int64_t>(blocks / (std::int64_t{target_.multiprocessors} * 8), 1, 8));
  }

  /// Whether registers suffice for the threads of a multiprocessor by the same measure as the model's.
  /// Whether blocks walk parts without a sum along a row, so that loads of the next rows are under way.
  bool walks_alone() const { return plan_.by_partition && !has_reduction(); }

  bool has_room(const RowsSchedule& schedule) const {
    const int arrays = live_ * schedule.elements();
    // Rows that are walked one after another need few registers beside their arrays.
    if (walks_alone() && schedule.resident_blocks <= kMostPartBlocks &&
        (arrays + kBesideArrays) * schedule.resident_blocks * schedule.block_threads() <= kRegistersPerBlock)
      return true;
    if (is_block_of_many(schedule) && schedule.resident_blocks <= resident_rows(schedule) + 2) return true;
    const int most = arrays <= kLeastRegisters  ? kMostResident
                     : arrays <= kFewRegisters  ? 1024
                     : arrays <= kSomeRegisters ? 512
                                                : kBlockThreads;
    return schedule.resident_blocks * schedule.block_threads() <= most;
  }

  /// Whether the kernel can be written so: what a recorded schedule must be.
  bool takes(const RowsSchedule& schedule) {
    for (const int number : {schedule.vector, schedule.threads, schedule.chunks, schedule.groups,
                             schedule.repeats, schedule.resident_blocks}) {
      if (number < 1) return false;
    }
    return takes_lanes(schedule) && takes_groups(schedule) && takes_repeats(schedule) &&
           (schedule.elements() <= kMostElements || schedule == modelled());
  }

  bool takes_lanes(const RowsSchedule& schedule) const {
    const std::int64_t span = std::int64_t{schedule.threads} * schedule.vector;
    if (widest_ % schedule.vector != 0 || (schedule.chunks - 1) * span >= plan_.lanes) return false;
    const bool power = std::has_single_bit(static_cast<unsigned>(schedule.threads));
    if (cuts_lanes()) return power && schedule.threads <= most_threads_of_lanes();
    if (schedule.chunks * span < plan_.lanes) return false;
    return schedule.threads <= 32 ? power : schedule.threads % 32 == 0 && schedule.threads <= kMostThreads;
  }

  bool takes_groups(const RowsSchedule& schedule) const {
    const std::int64_t threads = std::int64_t{schedule.threads} * schedule.groups;
    if (threads % 32 != 0 || threads > kMostThreads) return false;
    if (schedule.resident_blocks > 1 && schedule.resident_blocks * threads > kMostResident) return false;
    if (is_block_row(schedule)) return schedule.groups == 1;
    if (!plan_.by_partition) return true;
    if (!plan_.adds_up()) return schedule.groups == std::max(1, 32 / schedule.threads);
    return merges_in_room(schedule);
  }

  bool takes_repeats(const RowsSchedule& schedule) const {
    if (plan_.by_partition || must_be_one_block()) return schedule.repeats == repeats_of(schedule);
    return schedule.repeats <= kMostRepeats;
  }

  void take(const RowsSchedule& schedule) {
    static_cast<RowsSchedule&>(plan_) = schedule;
    plan_.lane_blocks = lane_blocks_of(schedule);
    plan_.row_blocks = row_blocks_of(schedule);
  }

  const Kernel& kernel_;
  const DeviceTarget& target_;
  RowsPlan plan_;
  int widest_ = 1;                               // the most neighbours of a thread
  int live_ = 0;                                 // arrays alive at once
  int scalars_ = 0;                              // scalars alive at once
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

std::optional<RowsPlan> plan_rows(const Kernel& kernel, const DeviceTarget& target,
                                  const RowsSchedule* schedule) {
  return RowPlanner(kernel, target).plan(schedule);
}

std::vector<RowsSchedule> rows_schedules(const Kernel& kernel, const DeviceTarget& target, std::size_t most) {
  return RowPlanner(kernel, target).schedules(most);
}

}  // namespace rewire::codegen::cuda
