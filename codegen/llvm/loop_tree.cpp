// The second half of building a loop tree: decides where values live, in the loops that schedule_loops made.
#include "codegen/llvm/loop_tree.h"

#include <algorithm>
#include <limits>
#include <set>

#include "codegen/llvm/node_cost.h"
#include "codegen/llvm/place_slots.h"
#include "codegen/llvm/schedule_loops.h"
#include "codegen/tile/row_condition.h"
#include "codegen/tile/walk.h"
#include "ir/error.h"

namespace rewire::codegen::cpu {
namespace {

using tile::Node;
using tile::TileValue;

constexpr int kNever = 1000;          // the cost of a value that cannot be recomputed
constexpr int kRecomputeLimit = 3;    // a load from a slot costs 1, and its store 1
constexpr int kRegisterCarried = 12;  // vectors of carried values that may stay in registers over the rows
constexpr std::int64_t kUnrolledVectors = 16;      // the most vectors of a row emitted without a loop
constexpr std::int64_t kUnrolledWork = 1200;       // the most instructions that this may make
constexpr int kLightWork = 24, kMediumWork = 120;  // instructions per vector, for the choice of unrolling

/// The place of a node: the ids of the loops around it, outermost first. Loop 0 is the row loop.
using Path = std::vector<std::int32_t>;

/// A reader of a value, and where it reads: at its own place, or where the reading node is recomputed.
struct Site {
  Path path;
  std::int32_t reader = -1;
};

bool is_prefix(const Path& prefix, const Path& path) {
  return prefix.size() <= path.size() && std::equal(prefix.begin(), prefix.end(), path.begin());
}

class Planner {
 public:
  explicit Planner(LoopProgram& program) : program_(program), sites_(program.values.size()) {
    paths_.resize(program.nodes.size());
    positions_.resize(program.nodes.size());
    steps_.resize(program.nodes.size());
    walk_section(program.prologue, {});
    walk_section(program.body, {0});
    body_end_ = step_ - 1;
    walk_section(program.epilogue, {});
  }

  void run() {
    choose_unrolled();
    collect_reads();
    plan_carried();
    find_dot_stores();
    for (std::size_t node = 0; node < program_.nodes.size(); ++node)
      choose_home(static_cast<std::int32_t>(node));
    make_slots();
    plan_dots();
    prune_all();
    for (Block* block : {&program_.prologue, &program_.body, &program_.epilogue}) choose_unroll(*block);
    place_slots(program_, slot_lives(), root_axes_, scalar_axes_);
  }

 private:
  const Node& at(std::int32_t node) const { return program_.nodes[static_cast<std::size_t>(node)]; }
  const Path& path(std::int32_t node) const { return paths_[static_cast<std::size_t>(node)]; }
  ValuePlan& plan(TileValue value) { return program_.values[static_cast<std::size_t>(value.id)]; }
  std::vector<Site>& sites(TileValue value) { return sites_[static_cast<std::size_t>(value.id)]; }

  void walk_section(const Block& block, const Path& around) {
    for (const Step& step : block) {
      root_axes_.push_back(step.loop ? step.loop->axis : -1);
      walk_step(step, around);
      ++step_;
    }
  }

  void walk_step(const Step& step, const Path& around) {
    if (!step.loop) {
      paths_[static_cast<std::size_t>(step.node)] = around;
      positions_[static_cast<std::size_t>(step.node)] = next_position_++;
      steps_[static_cast<std::size_t>(step.node)] = step_;
      return;
    }
    Path inside = around;
    inside.push_back(static_cast<std::int32_t>(loop_axes_.size()));
    loop_axes_.push_back(step.loop->axis);
    if (step.loop->vector) vector_loops_.push_back(step.loop.get());
    for (const Step& inner : step.loop->body) walk_step(inner, inside);
  }

  /// Returns the path on which a value is an SSA value: its node's place; for a reduction, the place outside
  /// of the loop that it closes.
  Path scope(std::int32_t node) const {
    Path result = path(node);
    if (const auto* reduce = std::get_if<tile::Reduce>(&at(node))) {
      while (loop_axes_[static_cast<std::size_t>(result.back())] != reduce->axes[0]) result.pop_back();
      result.pop_back();
    }
    return result;
  }

  void choose_unrolled() {
    std::vector<std::int64_t> work(program_.kernel.axes.size());
    for (const Loop* loop : vector_loops_) {
      for (const Step& step : loop->body)
        work[static_cast<std::size_t>(loop->axis)] += node_cost(program_, at(step.node));
    }
    program_.unrolled.resize(program_.kernel.axes.size());
    for (std::size_t axis = 0; axis < work.size(); ++axis) {
      const std::int64_t vectors =
          (program_.kernel.axes[axis].extent + program_.vector_width - 1) / program_.vector_width;
      program_.unrolled[axis] =
          vectors == 1 || (vectors <= kUnrolledVectors && vectors * work[axis] <= kUnrolledWork);
    }
  }

  bool is_dot_memory(std::int32_t node) const {
    const auto* load = node < 0 ? nullptr : std::get_if<tile::Load>(&at(node));
    if (load == nullptr || load->index) return false;
    const tile::Argument& argument =
        program_.kernel.arguments[static_cast<std::size_t>(load->access.argument)];
    return argument.use == tile::ArgumentUse::read && argument.dtype == ir::DType::f32;
  }

  /// Collects every value's readers. A dot reads plain loads from memory itself, and everything else from
  /// slots.
  void collect_reads() {
    for (std::size_t node = 0; node < program_.nodes.size(); ++node) {
      const bool dot = std::holds_alternative<tile::Dot>(program_.nodes[node]);
      for (TileValue operand : tile::operands_of(program_.nodes[node])) {
        if (dot && is_dot_memory(plan(operand).node)) continue;
        sites(operand).push_back({paths_[node], static_cast<std::int32_t>(node)});
        if (dot) dot_operands_.push_back(operand);
      }
    }
  }

  void plan_carried() {
    int vectors = 0;
    for (const tile::Carried& carried : program_.kernel.carried) {
      const auto slot = static_cast<std::int32_t>(program_.slots.size());
      const tile::ValueInfo& info = program_.info(carried.entry);
      program_.slots.push_back({info.dtype, info.lanes, false, false, 0});
      program_.carried_slots.push_back(slot);
      for (TileValue value : {carried.entry, carried.last}) {
        plan(value).home = Home::slot;
        plan(value).slot = slot;
      }
      if (info.lanes.size() == 1) vectors += static_cast<int>(vector_count(info.lanes[0]));
      if (info.lanes.empty()) continue;  // scalars are written before the rows and after each one
      plan(carried.initial).sinks.push_back(slot);
      if (reads_precede(carried.entry, plan(carried.next).node)) {
        plan(carried.next).sinks.push_back(slot);
      } else {
        indirect_.push_back({carried.next, slot});
      }
    }
    carried_in_registers_ = vectors <= kRegisterCarried;
  }

  std::int64_t vector_count(std::int32_t axis) const {
    return (program_.extent(axis) + program_.vector_width - 1) / program_.vector_width;
  }

  /// Returns whether all reads of a carried entry are done, point by point, when `writer` writes its slot.
  bool reads_precede(TileValue entry, std::int32_t writer) const {
    for (std::size_t node = 0; node < program_.nodes.size(); ++node) {
      const std::vector<TileValue> operands = tile::operands_of(program_.nodes[node]);
      if (std::find(operands.begin(), operands.end(), entry) == operands.end()) continue;
      if (positions_[node] > positions_[static_cast<std::size_t>(writer)]) return false;
    }
    return true;
  }

  /// Returns the cost of recomputing a value. It is kNever also if it exceeds `limit`, so that operands of
  /// operands are visited only as far as they matter.
  int recompute_cost(TileValue value, int limit) const {
    const std::int32_t node = program_.plan(value).node;
    if (node < 0) return kNever;
    const Node& n = at(node);
    if (std::holds_alternative<tile::Constant>(n) || std::holds_alternative<tile::Index>(n)) return 0;
    if (const auto* load = std::get_if<tile::Load>(&n)) {
      const bool readable = program_.kernel.arguments[static_cast<std::size_t>(load->access.argument)].use ==
                            tile::ArgumentUse::read;
      return !readable ? kNever
                       : node_cost(program_, n) + (load->index ? operand_cost(load->index, limit) : 0);
    }
    if (!std::holds_alternative<tile::Pointwise>(n)) return kNever;
    int cost = node_cost(program_, n);
    for (TileValue operand : tile::operands_of(n)) {
      if (cost > limit) return kNever;
      cost += operand_cost(operand, limit - cost);
    }
    return std::min(cost, kNever);
  }

  /// Returns the cost of a value where it is not in scope.
  int operand_cost(TileValue value, int limit) const {
    const ValuePlan& known = program_.plan(value);
    if (known.node < 0) return kNever;
    if (program_.info(value).lanes.empty()) return 0;
    return known.home == Home::slot ? 1 : recompute_cost(value, limit);
  }

  bool all_in_scope(std::int32_t node, const std::vector<Site>& readers) const {
    const Path defined = scope(node);
    return std::all_of(readers.begin(), readers.end(),
                       [&](const Site& reader) { return is_prefix(defined, reader.path); });
  }

  void choose_home(std::int32_t node) {
    const TileValue value = tile::result_of(at(node));
    if (!value || program_.info(value).lanes.empty()) return;
    ValuePlan& own = plan(value);
    if (must_have_slot(node, value)) {
      own.home = Home::slot;
    } else if (!all_in_scope(node, sites(value))) {
      const bool prologue = static_cast<std::size_t>(node) < program_.kernel.prologue.size();
      const bool chain = std::holds_alternative<tile::Pointwise>(at(node));
      const int limit = prologue && chain && !program_.kernel.body.empty() ? 0 : kRecomputeLimit;
      own.home = recompute_cost(value, limit) <= limit ? Home::recompute : Home::slot;
    }
    if (own.home == Home::recompute) read_again(node);
  }

  /// A value that is recomputed elsewhere reads its operands there.
  void read_again(std::int32_t node) {
    const std::vector<Site> readers = sites(tile::result_of(at(node)));
    for (TileValue operand : tile::operands_of(at(node))) {
      std::vector<Site>& known = sites(operand);
      known.insert(known.end(), readers.begin(), readers.end());
      const ValuePlan& source = plan(operand);
      if (source.home == Home::direct && !program_.info(operand).lanes.empty() &&
          !all_in_scope(source.node, known)) {
        plan(operand).home = Home::recompute;
      }
      if (plan(operand).home == Home::recompute) read_again(source.node);
    }
  }

  /// Finds dots that write to memory themselves: only a plain f32 store reads the result, and it writes
  /// contiguous memory that nothing else touches.
  void find_dot_stores() {
    program_.dots.resize(program_.nodes.size());
    for (std::size_t node = 0; node < program_.nodes.size(); ++node) {
      const auto* dot = std::get_if<tile::Dot>(&program_.nodes[node]);
      if (dot == nullptr || sites(dot->result).size() != 1) continue;
      const std::int32_t reader = sites(dot->result)[0].reader;
      const auto* store = std::get_if<tile::Store>(&at(reader));
      if (store == nullptr || store->predicate || !touched_once(store->access.argument)) continue;
      const std::vector<std::int32_t>& lanes = program_.info(dot->result).lanes;
      if (program_.kernel.arguments[static_cast<std::size_t>(store->access.argument)].dtype != ir::DType::f32)
        continue;
      if (tile::iteration_lanes(program_.kernel, at(reader)) != lanes) continue;
      if (store->access.strides[static_cast<std::size_t>(lanes.back())] == 1)
        program_.dots[node].store = reader;
    }
  }

  bool touched_once(std::int32_t argument) const {
    return 1 == std::count_if(program_.nodes.begin(), program_.nodes.end(), [&](const Node& node) {
             const tile::Access* access = tile::access_of(node);
             return access != nullptr && access->argument == argument;
           });
  }

  bool must_have_slot(std::int32_t node, TileValue value) const {
    if (std::holds_alternative<tile::Dot>(at(node)))
      return program_.dots[static_cast<std::size_t>(node)].store < 0;
    if (std::find(dot_operands_.begin(), dot_operands_.end(), value) != dot_operands_.end()) return true;
    if (std::any_of(indirect_.begin(), indirect_.end(),
                    [&](const auto& next) { return next.first == value; }))
      return true;
    const auto* reduce = std::get_if<tile::Reduce>(&at(node));
    return reduce != nullptr &&
           program_.info(value).lanes.back() > reduce->axes[0];  // accumulates over inner lanes
  }

  void make_slots() {
    for (std::size_t node = 0; node < program_.nodes.size(); ++node) {
      const TileValue value = tile::result_of(program_.nodes[node]);
      if (!value || plan(value).home != Home::slot) continue;
      ValuePlan& own = plan(value);
      own.slot = static_cast<std::int32_t>(program_.slots.size());
      own.sinks.push_back(own.slot);
      program_.slots.push_back(
          {program_.info(value).dtype, slot_lanes(static_cast<std::int32_t>(node), value), false, false, 0});
    }
    for (const auto& [next, slot] : indirect_) program_.copies.push_back({plan(next).slot, slot});
  }

  /// Returns the lanes of a slot: those of its value, except lanes whose loop surrounds the definition and
  /// every reader.
  std::vector<std::int32_t> slot_lanes(std::int32_t node, TileValue value) {
    Path common = scope(node);
    for (const Site& reader : sites(value)) {
      const auto differs =
          std::mismatch(common.begin(), common.end(), reader.path.begin(), reader.path.end());
      common.erase(differs.first, common.end());
    }
    std::vector<std::int32_t> lanes = program_.info(value).lanes;
    const bool whole = std::any_of(indirect_.begin(), indirect_.end(),
                                   [&](const auto& next) { return next.first == value; });
    if (whole) return lanes;
    for (std::int32_t loop : common) std::erase(lanes, loop_axes_[static_cast<std::size_t>(loop)]);
    return lanes;
  }

  void plan_dots() {
    for (std::size_t node = 0; node < program_.nodes.size(); ++node) {
      if (const auto* dot = std::get_if<tile::Dot>(&program_.nodes[node]))
        plan_dot(*dot, program_.dots[node]);
    }
  }

  void plan_dot(const tile::Dot& dot, DotPlan& result) {
    result.a = dot_operand(dot.a);
    result.b = dot_operand(dot.b);
    const std::int32_t vector_axis = program_.info(dot.result).lanes.back();
    result.swapped = tile::contains_lane(program_.info(dot.a).lanes, vector_axis);
    if (result.swapped && program_.info(dot.a).lanes.size() != 2) {
      internal_error("tile kernel {}: the last lane of a dot is one of several lanes of its left operand",
                     program_.kernel.name);
    }
    const DotOperand& vectors = result.swapped ? result.a : result.b;
    if (!contiguous(vectors, vector_axis)) {
      result.packed = static_cast<std::int32_t>(program_.slots.size());
      program_.slots.push_back({ir::DType::f32, {dot.contract, vector_axis}, true, false, 0});
    }
  }

  DotOperand dot_operand(TileValue value) const {
    const ValuePlan& source = program_.plan(value);
    return is_dot_memory(source.node) ? DotOperand{source.node, -1} : DotOperand{-1, source.slot};
  }

  bool contiguous(const DotOperand& operand, std::int32_t axis) const {
    if (operand.slot >= 0) return program_.slots[static_cast<std::size_t>(operand.slot)].lanes.back() == axis;
    return std::get<tile::Load>(at(operand.load)).access.strides[static_cast<std::size_t>(axis)] == 1;
  }

  /// Drops the nodes that only recomputing readers need, then empty loops. Notes each loop's reductions.
  void prune_all() {
    needed_.assign(program_.nodes.size(), false);
    for (std::size_t node = program_.nodes.size(); node-- > 0;)
      needed_[node] = is_needed(static_cast<std::int32_t>(node));
    for (Block* block : {&program_.prologue, &program_.body, &program_.epilogue}) {
      prune(*block);
      note_scalar_axes(*block);
    }
  }

  bool is_needed(std::int32_t node) const {
    const TileValue value = tile::result_of(at(node));
    if (!value) {
      return std::none_of(program_.dots.begin(), program_.dots.end(),
                          [&](const DotPlan& dot) { return dot.store == node; });
    }
    if (!program_.plan(value).sinks.empty()) return true;
    for (const tile::Carried& carried : program_.kernel.carried) {
      if (carried.initial == value || carried.next == value) return true;
    }
    if (std::holds_alternative<tile::Dot>(at(node)) &&
        program_.dots[static_cast<std::size_t>(node)].store >= 0)
      return true;
    const Path defined = scope(node);
    const std::vector<Site>& readers = sites_[static_cast<std::size_t>(value.id)];
    return std::any_of(readers.begin(), readers.end(), [&](const Site& site) {
      return needed_[static_cast<std::size_t>(site.reader)] && is_prefix(defined, site.path);
    });
  }

  void prune(Block& block) {
    for (Step& step : block) {
      if (!step.loop) continue;
      prune(step.loop->body);
      note_reductions(step.loop->body, *step.loop);
    }
    std::erase_if(block, [&](const Step& step) {
      return step.loop ? step.loop->body.empty() : !needed_[static_cast<std::size_t>(step.node)];
    });
  }

  void note_scalar_axes(const Block& block) {
    for (const Step& step : block) {
      if (!step.loop) continue;
      if (!step.loop->vector) scalar_axes_.insert(step.loop->axis);
      note_scalar_axes(step.loop->body);
    }
  }

  void note_reductions(const Block& block, Loop& loop) const {
    for (const Step& step : block) {
      if (step.loop) {
        note_reductions(step.loop->body, loop);
        continue;
      }
      const auto* reduce = std::get_if<tile::Reduce>(&at(step.node));
      if (reduce != nullptr && reduce->axes[0] == loop.axis) loop.reductions.push_back(step.node);
    }
  }

  /// Unrolls loops: enough independent vectors are in flight to hide latency, fewer if one vector keeps the
  /// CPU busy.
  void choose_unroll(Block& block) const {
    for (Step& step : block) {
      if (!step.loop) continue;
      choose_unroll(step.loop->body);
      int cost = 0;
      for (const Step& inner : step.loop->body) {
        if (!inner.loop) cost += node_cost(program_, at(inner.node));
      }
      step.loop->unroll = cost <= kLightWork ? 4 : cost <= kMediumWork ? 2 : 1;
    }
  }

  /// Returns what place_slots must know about each slot.
  std::vector<SlotLife> slot_lives() {
    const int end = step_;
    std::vector<SlotLife> lives(program_.slots.size());
    for (std::size_t node = 0; node < program_.nodes.size(); ++node) {
      const auto at_node = static_cast<std::int32_t>(node);
      const TileValue value = tile::result_of(program_.nodes[node]);
      if (value && plan(value).home == Home::slot)
        live(lives[static_cast<std::size_t>(plan(value).slot)], at_node, value);
      if (!std::holds_alternative<tile::Dot>(program_.nodes[node])) continue;
      const DotPlan& dot = program_.dots[node];
      if (dot.packed >= 0)
        lives[static_cast<std::size_t>(dot.packed)] = {steps_[node], steps_[node], 0, 0, false, true};
      for (std::int32_t slot : {dot.a.slot, dot.b.slot}) {
        if (slot >= 0) lives[static_cast<std::size_t>(slot)].memory = true;
      }
    }
    for (const SlotCopy& copy : program_.copies) {
      lives[static_cast<std::size_t>(copy.from)] = {0, end, 0, 0, false, true};
    }
    for (std::int32_t slot : program_.carried_slots) {
      lives[static_cast<std::size_t>(slot)] = {0, end,   0,
                                               0, false, !carried_in_registers_ || copied_to(slot)};
    }
    return lives;
  }

  bool copied_to(std::int32_t slot) const {
    return std::any_of(program_.copies.begin(), program_.copies.end(),
                       [&](const SlotCopy& copy) { return copy.to == slot; });
  }

  /// Sets a slot's life from the definition to the last reader. A value of the prologue that the body reads
  /// lives until the last row is done.
  void live(SlotLife& life, std::int32_t node, TileValue value) {
    const auto prologue_end = static_cast<std::int32_t>(program_.kernel.prologue.size());
    life.first = life.last = steps_[static_cast<std::size_t>(node)];
    life.written = positions_[static_cast<std::size_t>(node)];
    life.point_by_point =
        !std::holds_alternative<tile::Dot>(at(node)) && !std::holds_alternative<tile::Reduce>(at(node));
    life.memory = life.memory || std::holds_alternative<tile::Dot>(at(node));
    for (const Site& site : sites(value)) {
      const auto reader = static_cast<std::size_t>(site.reader);
      life.last = std::max(life.last, steps_[reader]);
      life.read = std::max(life.read, positions_[reader]);
      if (node < prologue_end && site.reader >= prologue_end) life.last = std::max(life.last, body_end_);
    }
  }

  LoopProgram& program_;
  std::vector<Path> paths_;                     // by node
  std::vector<int> positions_;                  // by node: its place in the order of execution
  std::vector<std::vector<Site>> sites_;        // by value: where it is read
  std::vector<std::int32_t> loop_axes_ = {-1};  // by loop id; 0 is the row loop
  std::vector<const Loop*> vector_loops_;       // before pruning
  std::set<std::int32_t> scalar_axes_;          // of loops left by pruning, with one element a trip
  std::vector<int> steps_;  // by node: the step of its section's block, counted over all sections
  std::vector<std::int32_t> root_axes_;  // by step: the axis of its loop, -1 for a node
  std::vector<TileValue> dot_operands_;
  std::vector<std::pair<TileValue, std::int32_t>> indirect_;  // carried next and slot, copied after the row
  std::vector<bool> needed_;
  bool carried_in_registers_ = false;
  int next_position_ = 0, step_ = 0, body_end_ = 0;
};

}  // namespace

std::vector<std::int64_t> LoopProgram::slot_extents(const Slot& slot) const {
  std::vector<std::int64_t> extents;
  for (std::int32_t lane : slot.lanes) extents.push_back(extent(lane));
  const auto pad = [&](std::int64_t& count) {
    count = (count + vector_width - 1) / vector_width * vector_width;
  };
  if (slot.packed) pad(extents.front());
  if (!extents.empty()) pad(extents.back());
  return extents;
}

LoopProgram build_loop_program(const tile::Kernel& kernel, int vector_width) {
  LoopProgram program;
  program.kernel = normalise(kernel);
  program.row_conditions = tile::row_conditions(kernel);
  program.vector_width = vector_width;
  for (const auto* section : {&program.kernel.prologue, &program.kernel.body, &program.kernel.epilogue}) {
    program.nodes.insert(program.nodes.end(), section->begin(), section->end());
  }
  program.values.resize(program.kernel.values.size());
  for (std::size_t node = 0; node < program.nodes.size(); ++node) {
    if (const TileValue value = tile::result_of(program.nodes[node])) {
      program.values[static_cast<std::size_t>(value.id)].node = static_cast<std::int32_t>(node);
    }
  }
  const auto prologue_end = static_cast<std::int32_t>(program.kernel.prologue.size());
  const auto body_end = prologue_end + static_cast<std::int32_t>(program.kernel.body.size());
  program.prologue = schedule_loops(program, 0, prologue_end);
  program.body = schedule_loops(program, prologue_end, body_end);
  program.epilogue = schedule_loops(program, body_end, static_cast<std::int32_t>(program.nodes.size()));
  Planner(program).run();
  return program;
}

}  // namespace rewire::codegen::cpu
