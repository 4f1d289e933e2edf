// Recognises kernels that walk tiles; see walks_plan.h.
#include "codegen/cuda/walks_plan.h"

#include <algorithm>
#include <limits>

#include "codegen/cuda/kernel_text.h"
#include "codegen/tile/walk.h"
#include "ir/opcodes.h"

namespace rewire::codegen::cuda {
namespace {

using tile::AxisUse;
using tile::Dot;
using tile::Load;
using tile::Node;
using tile::TileValue;
using Lanes = std::vector<std::int32_t>;

constexpr std::int64_t kWarpRows = 16, kMostWarps = 8;
constexpr std::int64_t kRegisters = 65536;      // of a multiprocessor
constexpr std::int64_t kMostRegisters = 255;    // of a thread
constexpr std::int64_t kBeside = 40;            // registers of a thread besides its elements of products
constexpr std::int64_t kReduced = 4;            // for what a reduction leaves, and what follows from it
constexpr std::int64_t kFragments = 8;          // for left operands that are read from shared memory
constexpr std::int64_t kMostResident = 4;       // blocks of a multiprocessor
constexpr std::int64_t kReservedShared = 1024;  // bytes per block that the system reserves

class WalkFacts {
 public:
  explicit WalkFacts(const tile::Kernel& kernel)
      : kernel_(kernel), definitions_(kernel.values.size()), readers_(kernel.values.size()) {
    visit_nodes(kernel, [&](const Node& node) {
      if (const TileValue result = tile::result_of(node)) at(definitions_, result) = &node;
      for (const TileValue operand : tile::operands_of(node)) at(readers_, operand).push_back(&node);
      if (const auto* dot = std::get_if<Dot>(&node)) dots_.push_back(dot);
    });
  }

  /// Returns the plan without what depends on the target.
  std::optional<WalkPlan> find() {
    if (kernel_.partitions > 1 || kernel_.carried.empty() || dots_.empty()) return std::nullopt;
    WalkPlan plan;
    for (const Dot* dot : dots_) {
      const Lanes& a = lanes(dot->a);
      if (a.size() != 2) return std::nullopt;
      const std::int32_t row = a[0] == dot->contract ? a[1] : a[0];
      if (plan.rows >= 0 && plan.rows != row) return std::nullopt;
      plan.rows = row;
    }
    row_ = plan.rows;
    const std::int64_t warps = extent(row_) / kWarpRows;
    if (extent(row_) % kWarpRows != 0 || warps > kMostWarps) return std::nullopt;
    plan.threads = static_cast<int>(32 * warps);
    for (const Dot* dot : dots_) {
      if (!add_left(*dot, plan) || !add_right(*dot, plan)) return std::nullopt;
    }
    bool fits = add_columns(plan);
    visit_nodes(kernel_, [&](const Node& node) { fits = fits && takes(node, plan); });
    for (const tile::Carried& carried : kernel_.carried) {
      fits = fits &&
             std::ranges::find(kernel_.carried, carried.next, &tile::Carried::entry) == kernel_.carried.end();
    }
    if (!fits) return std::nullopt;
    place(plan);
    return plan;
  }

  /// Returns the registers of a thread, without the left operands that are loaded.
  std::int64_t registers() const {
    std::int64_t count = kBeside;
    for (const tile::Carried& carried : kernel_.carried) count += registers_of(carried.entry);
    for (const Dot* dot : dots_) {
      if (!adds_to_carried(*dot)) count += registers_of(dot->result);
    }
    for (const Node& node : kernel_.body) {
      const auto* load = std::get_if<Load>(&node);
      if (std::holds_alternative<tile::Reduce>(node)) count += kReduced;
      if (load != nullptr && lanes(load->result).size() == 1 && lanes(load->result)[0] != row_)
        count += extent(lanes(load->result)[0]) / 4;
    }
    return count;
  }

 private:
  template <class T>
  static T& at(std::vector<T>& of, TileValue value) {
    return of[static_cast<std::size_t>(value.id)];
  }
  template <class T>
  static const T& at(const std::vector<T>& of, TileValue value) {
    return of[static_cast<std::size_t>(value.id)];
  }
  const Lanes& lanes(TileValue value) const { return at(kernel_.values, value).lanes; }
  std::int64_t extent(std::int32_t axis) const { return kernel_.axes[static_cast<std::size_t>(axis)].extent; }
  bool in_body(const Node* node) const {
    return !kernel_.body.empty() && node >= &kernel_.body.front() && node <= &kernel_.body.back();
  }

  std::int64_t registers_of(TileValue value) const {
    const Lanes& own = lanes(value);
    if (own.empty()) return 1;
    if (own.size() == 1) return 2;
    return (extent(own[0] == row_ ? own[1] : own[0]) + 15) / 16 * 8;
  }

  bool adds_to_carried(const Dot& dot) const {
    const auto& readers = at(readers_, dot.result);
    const auto* add = readers.size() == 1 ? std::get_if<tile::Pointwise>(readers[0]) : nullptr;
    return add != nullptr && add->code == ir::Opcode::add &&
           std::ranges::find(kernel_.carried, add->result, &tile::Carried::next) != kernel_.carried.end();
  }

  /// Returns the load of a matrix in bf16 that nothing writes, or nullptr.
  const Load* matrix(TileValue value) const {
    const auto* load = std::get_if<Load>(at(definitions_, value));
    if (load == nullptr || load->index || lanes(value).size() != 2 || !is_read_only(kernel_, load->access) ||
        kernel_.arguments[static_cast<std::size_t>(load->access.argument)].dtype != ir::DType::bf16)
      return nullptr;
    std::int64_t farthest = 0;
    for (const std::int32_t lane : lanes(value))
      farthest += std::abs(load->access.strides[static_cast<std::size_t>(lane)]) * extent(lane);
    return farthest <= std::numeric_limits<std::int32_t>::max() ? load : nullptr;
  }

  /// A left operand is a matrix of the prologue, or rounded to bf16 in registers.
  bool add_left(const Dot& dot, WalkPlan& plan) const {
    const Node* node = at(definitions_, dot.a);
    if (node == nullptr) return false;
    if (const Load* load = matrix(dot.a)) return !in_body(node) && add_tile(*load, row_, plan);
    const auto* widened = std::get_if<tile::Pointwise>(node);
    if (widened == nullptr || widened->code != ir::Opcode::cast) return false;
    const TileValue narrow = widened->operands[0];
    if (at(kernel_.values, narrow).dtype != ir::DType::bf16 || extent(dot.contract) % 16 != 0) return false;
    const bool only_products = std::ranges::all_of(
        at(readers_, dot.a), [](const Node* reader) { return std::holds_alternative<Dot>(*reader); });
    if (only_products && at(readers_, narrow).size() == 1) plan.exact.insert({narrow.id, dot.a.id});
    return true;
  }

  bool add_right(const Dot& dot, WalkPlan& plan) const {
    const Load* load = matrix(dot.b);
    if (load == nullptr || !in_body(at(definitions_, dot.b))) return false;
    const Lanes& own = lanes(dot.b);
    // The walked tokens go down the rows: they are what a loaded left operand has not.
    const std::int32_t down =
        matrix(dot.a) != nullptr ? (own[0] == dot.contract ? own[1] : own[0]) : dot.contract;
    return extent(down) % 16 == 0 && add_tile(*load, down, plan);
  }

  bool add_tile(const Load& load, std::int32_t down, WalkPlan& plan) const {
    const Lanes& own = lanes(load.result);
    const std::int32_t across = own[0] == down ? own[1] : own[0];
    if (const WalkTile* known = plan.tile_of(load.result))
      return known->rows == extent(down) && known->down == down;
    WalkTile tile{&load, in_body(at(definitions_, load.result)), down, across};
    tile.rows = extent(down), tile.columns = extent(across);
    tile.pitch = tile.padded() + 8;  // rows lie in distinct banks
    plan.tiles.push_back(tile);
    return true;
  }

  /// Adds the walked values that have one lane, which is not the rows.
  bool add_columns(WalkPlan& plan) const {
    for (const Node& node : kernel_.body) {
      const auto* load = std::get_if<Load>(&node);
      if (load == nullptr || lanes(load->result).size() != 1 || lanes(load->result)[0] == row_) continue;
      const ir::DType dtype = kernel_.arguments[static_cast<std::size_t>(load->access.argument)].dtype;
      if (load->index || !is_read_only(kernel_, load->access) || ir::dtype_bytes(dtype) != 4 ||
          dtype != at(kernel_.values, load->result).dtype)
        return false;
      WalkTile tile{load, true, lanes(load->result)[0], -1};
      tile.rows = extent(tile.down);
      plan.tiles.push_back(tile);
    }
    return true;
  }

  /// Returns whether a node has a form that walks.cpp writes.
  bool takes(const Node& node, const WalkPlan& plan) const {
    const auto has_rows = [&](TileValue value) {
      const Lanes& own = lanes(value);
      return own.empty() || (own.size() <= 2 && tile::contains_lane(own, row_));
    };
    if (std::holds_alternative<tile::Random>(node)) return false;
    if (const auto* reduce = std::get_if<tile::Reduce>(&node))
      return lanes(reduce->operand).size() == 2 && has_rows(reduce->operand) && reduce->axes[0] != row_ &&
             reduce->axes.size() == 1 && at(kernel_.values, reduce->result).dtype == ir::DType::f32;
    if (const auto* store = std::get_if<tile::Store>(&node))
      return has_rows(store->value) && !store->predicate &&
             tile::iteration_lanes(kernel_, node) == lanes(store->value) &&
             (lanes(store->value).size() < 2 || is_f32(store->value));
    if (const auto* load = std::get_if<Load>(&node))
      return plan.tile_of(load->result) != nullptr ||
             (has_rows(load->result) && !load->index && is_read_only(kernel_, load->access) &&
              (lanes(load->result).size() < 2 || is_f32(load->result)));
    const TileValue result = tile::result_of(node);
    if (std::holds_alternative<Dot>(node) || std::holds_alternative<tile::Constant>(node)) return true;
    if (std::holds_alternative<tile::Index>(node)) return true;
    return lanes(result).size() < 2 || has_rows(result);
  }
  bool is_f32(TileValue value) const { return at(kernel_.values, value).dtype == ir::DType::f32; }

  static void place(WalkPlan& plan) {
    const auto bytes = [](const WalkTile& tile) {
      return tile.columns > 0 ? tile.rows * tile.pitch * 2 : (tile.rows * 4 + 15) / 16 * 16;
    };
    std::int64_t once = 0;
    for (WalkTile& tile : plan.tiles) {
      std::int64_t& place = tile.walked ? plan.stage_bytes : once;
      tile.offset = place;
      place += bytes(tile);
    }
    plan.stages_at = once;  // unless they are held, which plan_walk() decides
  }

  const tile::Kernel& kernel_;
  std::vector<const Node*> definitions_;
  std::vector<std::vector<const Node*>> readers_;
  std::vector<const Dot*> dots_;
  std::int32_t row_ = -1;
};

/// Returns the registers of a thread for the left operands that are loaded.
std::int64_t held_registers(const WalkPlan& plan) {
  std::int64_t count = 0;
  for (const WalkTile& tile : plan.tiles) count += tile.walked ? 0 : tile.padded() / 4;
  return count;
}

/// Holds left operands, or leaves them in shared memory.
void hold(WalkPlan& plan, bool held) {
  std::int64_t once = 0;
  for (const WalkTile& tile : plan.tiles) once += tile.walked ? 0 : tile.rows * tile.pitch * 2;
  plan.held = held;
  plan.stages_at = held ? 0 : once;
  plan.shared_bytes =
      held ? plan.stage_bytes + std::max(plan.stage_bytes, once) : once + 2 * plan.stage_bytes;
}

/// Returns how many blocks a multiprocessor holds; 0: none.
std::int64_t resident_of(const WalkPlan& plan, std::int64_t registers, const DeviceTarget& target) {
  if (plan.shared_bytes > target.shared_bytes_per_block || registers > kMostRegisters) return 0;
  const std::int64_t rounded = (registers + 7) / 8 * 8;
  const std::int64_t by_shared =
      (target.shared_bytes_per_block + kReservedShared) / (plan.shared_bytes + kReservedShared);
  return std::clamp<std::int64_t>(std::min(kRegisters / (rounded * plan.threads), by_shared), 1,
                                  kMostResident);
}

}  // namespace

const WalkTile* WalkPlan::tile_of(tile::TileValue value) const {
  const auto found =
      std::ranges::find_if(tiles, [&](const WalkTile& tile) { return tile.load->result == value; });
  return found == tiles.end() ? nullptr : &*found;
}

std::optional<WalkPlan> plan_walk(const tile::Kernel& kernel, const DeviceTarget& target,
                                  const BlockSchedule* schedule) {
  WalkFacts facts(kernel);
  std::optional<WalkPlan> plan = facts.find();
  if (!plan) return std::nullopt;
  const std::int64_t own = facts.registers();
  WalkPlan unheld = *plan;
  hold(*plan, true);
  hold(unheld, false);
  const std::int64_t with = resident_of(*plan, own + held_registers(*plan), target);
  const std::int64_t without = resident_of(unheld, own + kFragments, target);
  if (without > with) *plan = unheld;
  const std::int64_t resident = std::max(with, without);
  if (resident == 0) return std::nullopt;
  plan->resident_blocks = static_cast<int>(resident);
  if (schedule == nullptr) return plan;
  if (schedule->threads != plan->threads || !schedule->widths.empty() || schedule->resident_blocks < 1 ||
      schedule->resident_blocks > resident)
    return std::nullopt;
  plan->resident_blocks = schedule->resident_blocks;
  return plan;
}

std::vector<BlockSchedule> walk_schedules(const tile::Kernel& kernel, const DeviceTarget& target,
                                          std::size_t most) {
  std::vector<BlockSchedule> schedules;
  const std::optional<WalkPlan> plan = plan_walk(kernel, target);
  if (!plan) return schedules;
  for (int resident = plan->resident_blocks; resident > 0 && schedules.size() < most; --resident)
    schedules.push_back({plan->threads, resident, {}});
  return schedules;
}

}  // namespace rewire::codegen::cuda
