// Tiles and orders of a kernel that transposes; see transposes_plan.h.
#include "codegen/cuda/transposes_plan.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/padded_tile.h"
#include "codegen/cuda/rows_plan.h"
#include "codegen/tile/walk.h"
#include "ir/error.h"

namespace rewire::codegen::cuda {
namespace {

using tile::Kernel;
using tile::Node;
using Axes = std::vector<std::int32_t>;

constexpr int kTileThreads = 256;               // the most threads per block that the model chooses
constexpr int kUsualResident = 1024;            // resident threads, so that each has 64 registers
constexpr std::int64_t kMostPoints = 8192;      // the most points of a tile
constexpr std::int64_t kFewPoints = 1024;       // fewer do not fill a block, if there are enough blocks
constexpr std::int64_t kMostShared = 48 << 10;  // bytes, so that several blocks fit a multiprocessor
// Bytes of a tile that should be neighbours in memory, the model's choice first.
constexpr std::int64_t kRuns[] = {128, 64, 256};
constexpr std::int64_t kGain = 10;        // the form must save 1 / kGain of the cost of rows,
constexpr std::int64_t kLeastGain = 128;  // and so many sectors: fewer are not worth this form
constexpr std::int64_t kSharedCost = 4;   // sectors through shared memory cost 1 / kSharedCost more

std::size_t slot(std::int32_t axis) {
  return static_cast<std::size_t>(axis);
}
std::int64_t pieces(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

bool same_place(const tile::Access& a, const tile::Access& b) {
  return a.offset == b.offset && a.strides == b.strides;
}

/// Returns whether all points are independent, so that any thread of any block may compute a point. Only row
/// kernels draw random numbers, four at once.
bool is_pointwise(const Kernel& kernel) {
  if (walks_parts(kernel)) return false;
  std::vector<std::pair<const tile::Access*, bool>> written;  // accesses to what is written; true: a store
  bool stores = false;
  for (const auto* section : {&kernel.prologue, &kernel.body}) {
    for (const Node& node : *section) {
      if (std::holds_alternative<tile::Reduce>(node) || std::holds_alternative<tile::Dot>(node) ||
          std::holds_alternative<tile::Random>(node))
        return false;
      const tile::Access* access = tile::access_of(node);
      if (access == nullptr || is_read_only(kernel, *access)) continue;
      const auto* load = std::get_if<tile::Load>(&node);
      if (load != nullptr && load->index) return false;
      for (std::size_t axis = 0; axis < kernel.axes.size(); ++axis) {
        if (kernel.axes[axis].extent > 1 && access->strides[axis] == 0) return false;
      }
      // One thread alone must touch an element that is read and written. It reads the element first, and
      // writes it once.
      for (const auto& [before, stored] : written) {
        if (before->argument != access->argument) continue;
        const bool in_place = kernel.arguments[slot(access->argument)].use == tile::ArgumentUse::read_write;
        if (same_place(*before, *access) ? stored : in_place) return false;
      }
      written.emplace_back(access, load == nullptr);
      stores = stores || load == nullptr;
    }
  }
  return stores;
}

class TransposePlanner {
 public:
  TransposePlanner(const Kernel& kernel, const DeviceTarget& target) : kernel_(kernel), target_(target) {}

  /// Returns nullopt if the schedule does not fit the kernel.
  std::optional<TransposePlan> plan(const TransposeSchedule& schedule) {
    if (!prepare() || !takes(schedule)) return std::nullopt;
    std::optional<TransposePlan> best = tiled(schedule.tile);
    if (!best) return std::nullopt;
    static_cast<TransposeSchedule&>(*best) = schedule;
    best->row_traffic = row_traffic(kernel_, *rows_);
    return best;
  }

  /// Returns the cost model's plan; nullopt if the form does not gain enough.
  std::optional<TransposePlan> modelled() {
    const std::vector<TransposePlan> plans = gaining();
    return plans.empty() ? std::nullopt : std::optional(plans.front());
  }

  std::vector<TransposeSchedule> schedules(std::size_t most) {
    std::vector<TransposeSchedule> list;
    const auto add = [&](const TransposeSchedule& next) {
      if (list.size() < most && takes(next) && std::ranges::find(list, next) == list.end())
        list.push_back(next);
    };
    const std::vector<TransposePlan> plans = gaining();
    for (const TransposePlan& plan : plans) add(plan);
    if (plans.empty()) return list;
    TransposeSchedule halved = plans[0];
    halved.threads = std::max(plans[0].threads / 2 / kWarp * kWarp, kWarp);
    add(halved);
    return list;
  }

 private:
  std::int64_t extent(std::int32_t axis) const { return kernel_.axes[slot(axis)].extent; }

  /// Returns false if the kernel is of another kind.
  bool prepare() {
    if (!is_pointwise(kernel_)) return false;
    addresses_ = addresses_of(kernel_);
    const auto rows = plan_rows(kernel_, target_);
    if (!rows) return false;
    rows_ = rows;
    for (const tile::Axis& axis : kernel_.axes) points_ *= axis.extent;
    return true;
  }

  /// Returns whether two accesses walk memory along their axes in different orders.
  bool transposes() const {
    const Axes& all = std::ranges::find_if(addresses_, &Address::is_store)->order();
    return std::ranges::any_of(addresses_, [&](const Address& address) {
      Axes order;
      std::ranges::copy_if(all, std::back_inserter(order), [&](std::int32_t axis) {
        return std::ranges::find(address.order(), axis) != address.order().end();
      });
      return address.is_known() && order != address.order();
    });
  }

  /// Returns, by a quick test, whether a row kernel may touch more than it must: the neighbours of some
  /// access lie along another axis than the row's lanes, or are few.
  bool may_gain() const {
    const auto along = std::ranges::find_if(rows_->lane_axes.rbegin(), rows_->lane_axes.rend(),
                                            [&](std::int32_t axis) { return extent(axis) > 1; });
    return std::ranges::any_of(addresses_, [&](const Address& address) {
      if (!address.is_known() || address.order().empty()) return false;
      const std::int32_t nearest = address.order().front();
      return along == rows_->lane_axes.rend() || nearest != *along ||
             extent(nearest) * address.bytes() < kRuns[0];
    });
  }
  static bool is_gather(const Address& address) {
    const auto* load = std::get_if<tile::Load>(&address.node());
    return load != nullptr && load->index;
  }

  /// Returns the plans that gain enough, the best first, each with a tile of its own.
  std::vector<TransposePlan> gaining() {
    std::vector<TransposePlan> plans;
    if (!prepare() || !transposes() || !may_gain()) return plans;
    const Traffic by_rows = row_traffic(kernel_, *rows_);
    for (const std::int64_t run : kRuns) {
      const std::vector<int> tile = tile_of(run);
      if (points_of(tile) > kMostPoints) continue;
      if (std::ranges::any_of(plans, [&](const TransposePlan& plan) { return plan.tile == tile; })) continue;
      std::optional<TransposePlan> plan = tiled(tile);
      if (!plan || plan->traffic.sectors + kLeastGain > by_rows.sectors) continue;
      if (plan->cost * kGain > by_rows.cost() * (kGain - 1)) continue;
      plan->threads = threads_of(*plan);
      plan->resident_blocks = resident_of(*plan);
      plan->row_traffic = by_rows;
      plans.push_back(std::move(*plan));
    }
    // A block for every multiprocessor matters more than long runs of neighbours: `idle` is compared first.
    std::ranges::stable_sort(plans, {}, [&](const TransposePlan& plan) {
      const std::int64_t idle = std::max<std::int64_t>(target_.multiprocessors - plan.blocks, 0);
      return std::pair(idle, plan.cost);
    });
    return plans;
  }

  // --- the tile

  static std::int64_t points_of(const std::vector<int>& tile) {
    std::int64_t product = 1;
    for (const int size : tile) product *= size;
    return product;
  }

  /// Returns a tile that is long along each access's neighbours, then along the first store's axes until it
  /// fills a block.
  std::vector<int> tile_of(std::int64_t run_bytes) const {
    std::vector<int> tile(kernel_.axes.size(), 1);
    for (const Address& address : addresses_) {
      if (address.is_known()) lengthen(tile, address, run_bytes);
    }
    const auto first = std::ranges::find_if(addresses_, &Address::is_store);
    for (const std::int32_t axis : first->order()) {
      const std::int64_t left = kFewPoints / points_of(tile);
      const std::int64_t blocks = points_ / points_of(tile) / (2 * std::int64_t{target_.multiprocessors});
      const std::int64_t factor = std::min(left, blocks);
      if (factor > 1) tile[slot(axis)] = share_of(axis, tile[slot(axis)] * factor);
    }
    return tile;
  }

  /// Lengthens a tile along the axes of an access, as long as they are neighbours in memory.
  void lengthen(std::vector<int>& tile, const Address& address, std::int64_t run_bytes) const {
    const std::int64_t wanted = run_bytes / address.bytes();
    std::int64_t run = 1, next = 0;
    for (const std::int32_t axis : address.order()) {
      const std::int64_t stride = std::abs(address.strides()[slot(axis)]);
      if (run >= wanted || stride == 0 || (next != 0 && stride != next)) return;
      int& size = tile[slot(axis)];
      size = std::max(size, part_of(axis, pieces(wanted, run), kSectorBytes / address.bytes()));
      if (size < extent(axis)) return;
      run *= size;
      next = stride * extent(axis);
    }
  }

  /// Returns about `wanted` points of an axis, a multiple of `step`, such that the axis divides into parts
  /// of one size.
  int part_of(std::int32_t axis, std::int64_t wanted, std::int64_t step) const {
    const std::int64_t all = extent(axis);
    if (wanted >= all) return static_cast<int>(all);
    const std::int64_t even = pieces(all, pieces(all, wanted));
    return static_cast<int>(std::min(pieces(even, step) * step, all));
  }

  /// Returns about `wanted` points of an axis: a number that divides its extent, if there is one nearby.
  int share_of(std::int32_t axis, std::int64_t wanted) const {
    for (std::int64_t size = std::min(wanted, extent(axis)); size > wanted / 2; --size) {
      if (extent(axis) % size == 0) return static_cast<int>(size);
    }
    return part_of(axis, wanted, 1);
  }

  bool takes(const TransposeSchedule& schedule) const {
    if (schedule.tile.size() != kernel_.axes.size() || schedule.resident_blocks < 1) return false;
    if (schedule.threads < kWarp || schedule.threads > kMostThreads || schedule.threads % kWarp != 0)
      return false;
    if (schedule.resident_blocks > 1 && schedule.resident_blocks * schedule.threads > kMostResident)
      return false;
    std::int64_t points = 1;
    for (std::size_t axis = 0; axis < schedule.tile.size() && points <= kMostPoints; ++axis) {
      if (schedule.tile[axis] < 1 || schedule.tile[axis] > kernel_.axes[axis].extent) return false;
      points *= schedule.tile[axis];
    }
    return points <= kMostPoints;
  }

  /// Returns a number of threads that cover all packets of a tile, as evenly as possible.
  int threads_of(const TransposePlan& plan) const {
    const std::int64_t packets = pieces(plan.points(plan.walk), plan.walk.packet);
    const std::int64_t turns = pieces(packets, kTileThreads);
    return static_cast<int>(pieces(pieces(packets, turns), kWarp) * kWarp);
  }
  int resident_of(const TransposePlan& plan) const {
    const std::int64_t share = pieces(plan.blocks, target_.multiprocessors);
    return static_cast<int>(std::clamp<std::int64_t>(kUsualResident / plan.threads, 1, share));
  }

  // --- orders

  /// Returns the plan with the best order of points for a tile; nullopt if every order takes too much shared
  /// memory.
  std::optional<TransposePlan> tiled(const std::vector<int>& tile) {
    std::optional<TransposePlan> best;
    std::set<Axes> tried;
    for (const bool stores : {true, false}) {
      for (const Address& leader : addresses_) {
        if (leader.is_store() != stores || !leader.is_known() || leader.order().size() != all_axes())
          continue;
        if (!tried.insert(leader.order()).second) continue;
        std::optional<TransposePlan> next = led_by(leader, tile);
        if (next && (!best || next->cost < best->cost)) best = std::move(next);
      }
    }
    return best;
  }
  std::size_t all_axes() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(kernel_.axes, [](const tile::Axis& axis) { return axis.extent > 1; }));
  }

  /// Returns the plan with the points in the order of one access's neighbours.
  std::optional<TransposePlan> led_by(const Address& leader, const std::vector<int>& tile) {
    TransposePlan plan;
    plan.tile = tile;
    for (std::size_t axis = 0; axis < tile.size(); ++axis) {
      plan.tiles.push_back(pieces(kernel_.axes[axis].extent, tile[axis]));
      plan.blocks *= plan.tiles.back();
    }
    if (plan.blocks > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
    varying_ = varying_values(kernel_, tile);
    plan.walk = walk_of(plan, leader);
    for (const Address& address : addresses_) {
      const TileWalk along{plan.walk.order, packet(plan, address, plan.walk.order)};
      plan.walk.packet = std::max(plan.walk.packet, along.packet);
      plan.accesses.push_back({&address.node(), along, false, {}, 0, 0});
    }
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
      if (!is_run(plan, addresses_[i])) plan.accesses[i].walk.packet = 1;
      stage(plan, plan.accesses[i], addresses_[i]);
    }
    return plan.shared_bytes <= kMostShared ? std::optional(std::move(plan)) : std::nullopt;
  }

  TileWalk walk_of(const TransposePlan& plan, const Address& address) const {
    TileWalk walk;
    std::ranges::copy_if(address.order(), std::back_inserter(walk.order),
                         [&](std::int32_t axis) { return plan.tile[slot(axis)] > 1; });
    walk.packet = packet(plan, address, walk.order);
    return walk;
  }

  /// Returns the most neighbours of an access, a power of two, that a walk can take at once.
  int packet(const TransposePlan& plan, const Address& address, const Axes& order) const {
    const auto* store = std::get_if<tile::Store>(&address.node());
    if (store != nullptr && store->predicate && varying_[slot(store->predicate.id)]) return 1;
    if (is_gather(address)) return 1;
    int most = static_cast<int>(std::clamp<std::int64_t>(16 / address.bytes(), 1, 8));
    while (most > 1 && !fits(plan, address, order, most)) most /= 2;
    return most;
  }

  bool fits(const TransposePlan& plan, const Address& address, const Axes& order, std::int64_t packet) const {
    std::vector<std::int64_t> steps(kernel_.axes.size(), 1);  // of an axis, from packet to packet
    std::int64_t below = 1;
    for (const std::int32_t axis : order) {
      if (below >= packet) break;
      const std::int64_t size = plan.tile[slot(axis)], step = std::min(size, packet / below);
      if (address.strides()[slot(axis)] != below || size % step != 0 || packet % (below * step) != 0)
        return false;
      if (step < size ? extent(axis) % step != 0 : plan.is_short(kernel_, axis)) return false;
      steps[slot(axis)] = step == extent(axis) ? 0 : step;
      below *= size;
    }
    if (below < packet || address.access().offset % packet != 0) return false;
    for (std::size_t axis = 0; axis < steps.size(); ++axis) {
      if (kernel_.axes[axis].extent > 1 && address.strides()[axis] * steps[axis] % packet != 0) return false;
    }
    return true;
  }

  /// Returns whether a thread's points are neighbours in memory, aligned or not.
  bool is_run(const TransposePlan& plan, const Address& address) const {
    std::int64_t below = 1;
    for (const std::int32_t axis : plan.walk.order) {
      if (below >= plan.walk.packet) break;
      if (address.strides()[slot(axis)] != below) return false;
      below *= plan.tile[slot(axis)];
    }
    return true;
  }

  /// Moves a point from the start of the tile to index `linear` of a walk. Returns false if it leaves the
  /// kernel.
  bool move(const TransposePlan& plan, const TileWalk& walk, std::int64_t linear, Point& point) const {
    bool inside = true;
    for (const std::int32_t axis : walk.order) {
      const std::int64_t size = plan.tile[slot(axis)];
      point[slot(axis)] += linear % size;
      inside = inside && point[slot(axis)] < extent(axis);
      linear /= size;
    }
    return inside;
  }

  // --- accesses through shared memory

  /// Lays out an access's array in the order of the points, after the arrays that are there already.
  void lay_out(TransposePlan& plan, TileAccess& access) const {
    const auto dtype = kernel_.arguments[slot(tile::access_of(*access.node)->argument)].dtype;
    const auto bytes = static_cast<std::int64_t>(ir::dtype_bytes(dtype));
    const PaddedTile tile = padded_tile(plan.tile, plan.walk, access.walk, bytes);
    access.strides = tile.strides;
    access.offset = plan.shared_bytes;
    access.bytes = tile.elements * bytes;
    plan.shared_bytes += pieces(access.bytes, 16) * 16;
  }

  /// Decides whether to stage an access, and counts what it touches. Elements that the points of a tile
  /// share are left to the cache.
  void stage(TransposePlan& plan, TileAccess& access, const Address& address) {
    if (!address.is_known()) return;
    const Traffic direct = traffic(plan, address, {access.walk.order, plan.walk.packet},
                                   access.walk.packet > 1 ? plan.walk.packet : 1);
    const TileWalk own = walk_of(plan, address);
    const auto* store = std::get_if<tile::Store>(access.node);
    const bool both = kernel_.arguments[slot(address.access().argument)].use == tile::ArgumentUse::read_write;
    const bool all = own.order.size() == plan.walk.order.size();
    const bool may = all && own.order != plan.walk.order && !both && (store == nullptr || !store->predicate);
    const Traffic through = may ? traffic(plan, address, own, own.packet) : direct;
    const std::int64_t cost = through.cost() + through.sectors / kSharedCost;
    plan.traffic += cost < direct.cost() ? through : direct;
    plan.cost += std::min(cost, direct.cost());
    if (cost >= direct.cost()) return;
    access.staged = true;
    access.walk = own;
    lay_out(plan, access);
  }

  /// Returns the traffic of an access that takes `width` neighbours per request.
  Traffic traffic(const TransposePlan& plan, const Address& address, const TileWalk& walk, int width) const {
    Point point(kernel_.axes.size()), first(kernel_.axes.size());
    Request request;
    const std::int64_t points = plan.points(walk), packets = points / walk.packet;
    return over_blocks(plan.blocks, points_, [&](std::int64_t block) {
      BlockTraffic sum{{}, 1};
      for (std::size_t axis = first.size(); axis-- > 0;) {
        first[axis] = block % plan.tiles[axis] * plan.tile[axis];
        block /= plan.tiles[axis];
        sum.points *= std::min<std::int64_t>(plan.tile[axis], kernel_.axes[axis].extent - first[axis]);
      }
      for (std::int64_t warp = 0; warp < packets; warp += kWarp) {
        std::int64_t before = -1;  // what the first thread touched
        for (std::int64_t e = 0; e < walk.packet; e += width) {
          for (std::int64_t thread = warp; thread < std::min(warp + kWarp, packets); ++thread) {
            point = first;
            if (!move(plan, walk, thread * walk.packet + e, point)) continue;
            const std::int64_t element = address.element(point);
            if (thread == warp && std::exchange(before, element) == element) break;  // already in a register
            request.touch(element * address.bytes(), width * address.bytes());
          }
          sum.traffic += request.take();
        }
      }
      return sum;
    });
  }

  const Kernel& kernel_;
  const DeviceTarget& target_;
  std::vector<Address> addresses_;
  std::optional<RowsPlan> rows_;
  std::vector<bool> varying_;  // by value, for the tile being planned
  std::int64_t points_ = 1;
};

}  // namespace

const TileAccess& TransposePlan::access(const Node& node) const {
  const auto found = std::ranges::find(accesses, &node, &TileAccess::node);
  if (found == accesses.end()) internal_error("a node without an access");
  return *found;
}

std::int64_t TransposePlan::points(const TileWalk& of) const {
  std::int64_t product = 1;
  for (const std::int32_t axis : of.order) product *= tile[slot(axis)];
  return product;
}

bool TransposePlan::is_short(const Kernel& kernel, std::int32_t axis) const {
  return kernel.axes[slot(axis)].extent % tile[slot(axis)] != 0;
}

std::vector<bool> varying_values(const Kernel& kernel, const std::vector<int>& tile) {
  std::vector<bool> varying(kernel.values.size(), false);
  for (const auto* section : {&kernel.prologue, &kernel.body}) {
    for (const Node& node : *section) {
      const tile::TileValue result = tile::result_of(node);
      if (!result) continue;
      bool varies = std::ranges::any_of(tile::operands_of(node),
                                        [&](tile::TileValue operand) { return varying[slot(operand.id)]; });
      if (const auto* index = std::get_if<tile::Index>(&node)) varies = tile[slot(index->axis)] > 1;
      const tile::Access* access = tile::access_of(node);
      for (std::size_t axis = 0; access != nullptr && axis < tile.size(); ++axis)
        varies = varies || (tile[axis] > 1 && access->strides[axis] != 0);
      varying[slot(result.id)] = varies;
    }
  }
  return varying;
}

std::optional<TransposePlan> plan_transpose(const Kernel& kernel, const DeviceTarget& target,
                                            const TransposeSchedule* schedule) {
  if (kernel.bounds || !kernel.short_tiles.empty()) return std::nullopt;
  TransposePlanner planner(kernel, target);
  return schedule != nullptr ? planner.plan(*schedule) : planner.modelled();
}

std::vector<TransposeSchedule> transpose_schedules(const Kernel& kernel, const DeviceTarget& target,
                                                   std::size_t most) {
  if (kernel.bounds || !kernel.short_tiles.empty()) return {};
  return TransposePlanner(kernel, target).schedules(most);
}

}  // namespace rewire::codegen::cuda
