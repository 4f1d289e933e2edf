// Goes through the launches once, with the last launch that wrote or used each buffer; see append_maps.h.
#include "codegen/append_maps.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "codegen/cost.h"
#include "codegen/slots.h"
#include "codegen/tile/walk.h"

namespace rewire::codegen {
namespace {

using tile::AxisUse;
using tile::Kernel;
using tile::Node;
using tile::TileValue;

constexpr std::size_t kMostNodes = 64;  // of a map: a longer one fills a launch of its own
constexpr std::int64_t kLarger = 8;     // elements of a launch that waits for a map, per element of the map

std::size_t index_of(TileValue value) {
  return static_cast<std::size_t>(value.id);
}

/// Returns the only lane axis of a kernel without outer axes.
std::optional<std::size_t> only_lane(const Kernel& kernel) {
  std::optional<std::size_t> lane;
  for (std::size_t i = 0; i < kernel.axes.size(); ++i) {
    if (kernel.axes[i].use == AxisUse::outer || (kernel.axes[i].use == AxisUse::lane && lane))
      return std::nullopt;
    if (kernel.axes[i].use == AxisUse::lane) lane = i;
  }
  return lane;
}

/// Copies nodes of one kernel into another, whose lane axis has the same extent.
class Copying {
 public:
  Copying(const KernelLaunch& from, KernelLaunch& to)
      : from_(from), to_(to), from_lane_(*only_lane(from.kernel)), to_lane_(*only_lane(to.kernel)) {}

  /// From now on `value` of `from` is `copy` of `to`.
  void set(TileValue value, TileValue copy) { values_[value] = copy; }

  void copy(Node node, std::vector<Node>& section) {
    const TileValue result = tile::result_of(node);
    if (result) set(result, new_value(result));
    std::visit(tile::Overloaded{
                   [&](tile::Load& n) { n.access = access(n.access, tile::ArgumentUse::read); },
                   [&](tile::Store& n) {
                     n.value = values_.at(n.value);
                     if (n.predicate) n.predicate = values_.at(n.predicate);
                     n.access = access(n.access, tile::ArgumentUse::write);
                   },
                   [&](tile::Pointwise& n) {
                     for (TileValue& operand : n.operands) operand = values_.at(operand);
                   },
                   [&](tile::Reduce& n) {
                     n.operand = values_.at(n.operand);
                     n.axes = {static_cast<std::int32_t>(to_lane_)};
                   },
                   [](auto&) {},
               },
               node);
    if (result)
      std::visit(
          [&](auto& n) {
            if constexpr (requires { n.result; }) n.result = values_.at(result);
          },
          node);
    section.push_back(std::move(node));
  }

  /// Copies a load, in place of `value`, of what `store` has stored.
  void load_back(TileValue value, const tile::Store& store, std::vector<Node>& section) {
    set(value, new_value(value));
    section.push_back(tile::Load{values_.at(value), access(store.access, tile::ArgumentUse::read), {}, 0, 0});
  }

 private:
  TileValue new_value(TileValue value) {
    tile::ValueInfo info = from_.kernel.values[index_of(value)];
    for (std::int32_t& lane : info.lanes) lane = static_cast<std::int32_t>(to_lane_);
    to_.kernel.values.push_back(std::move(info));
    return {static_cast<std::int32_t>(to_.kernel.values.size()) - 1};
  }

  tile::Access access(const tile::Access& old, tile::ArgumentUse use) {
    const std::int32_t buffer = from_.buffers[static_cast<std::size_t>(old.argument)];
    auto at = std::ranges::find(to_.buffers, buffer) - to_.buffers.begin();
    if (at == std::ssize(to_.buffers)) {
      tile::Argument argument = from_.kernel.arguments[static_cast<std::size_t>(old.argument)];
      argument.use = use;
      to_.kernel.arguments.push_back(std::move(argument));
      to_.buffers.push_back(buffer);
    }
    tile::Access made{static_cast<std::int32_t>(at), old.offset,
                      std::vector<std::int64_t>(to_.kernel.axes.size(), 0), 0};
    made.strides[to_lane_] = old.strides[from_lane_];
    return made;
  }

  const KernelLaunch& from_;
  KernelLaunch& to_;
  std::size_t from_lane_, to_lane_;
  std::map<TileValue, TileValue> values_;
};

/// A map whose loads are understood: which nodes a reduction needs, and which of its stores are of its lanes.
class MapKernel {
 public:
  explicit MapKernel(const KernelLaunch& launch) : launch_(launch), kernel_(launch.kernel) {
    reduced_.resize(kernel_.values.size());
    for (const Node& node : kernel_.prologue) {
      const TileValue result = tile::result_of(node);
      bool reduced = std::holds_alternative<tile::Reduce>(node);
      for (const TileValue operand : tile::operands_of(node))
        reduced = reduced || reduced_[index_of(operand)];
      if (result) reduced_[index_of(result)] = reduced;
      if (const auto* store = std::get_if<tile::Store>(&node)) (reduced ? ends_ : stores_).push_back(store);
    }
  }

  static bool is_one(const KernelLaunch& launch) {
    const Kernel& kernel = launch.kernel;
    if (launch.is_table() || !only_lane(kernel) || kernel.row_count() > 1 || !kernel.body.empty() ||
        !kernel.epilogue.empty() || kernel.prologue.size() > kMostNodes)
      return false;
    return std::ranges::all_of(kernel.prologue,
                               [](const Node& node) {
                                 const auto* load = std::get_if<tile::Load>(&node);
                                 return load != nullptr ? !load->index
                                                        : !std::holds_alternative<tile::Dot>(node) &&
                                                              !std::holds_alternative<tile::Index>(node) &&
                                                              !std::holds_alternative<tile::Random>(node);
                               }) &&
           std::ranges::none_of(kernel.arguments, [](const tile::Argument& argument) {
             return argument.use == tile::ArgumentUse::read_write;
           });
  }

  bool has_stores() const { return !stores_.empty(); }
  bool has_ends() const { return !ends_.empty(); }

  /// Appends all but the reductions to the epilogue of `sum`. `known`: values that its epilogue has.
  void append_to(KernelLaunch& sum, const std::map<TileValue, TileValue>& known) const {
    Copying copying(launch_, sum);
    for (const auto& [value, copy] : known) copying.set(value, copy);
    const std::vector<bool> needed = needed_by(stores_, known);
    for (const Node& node : kernel_.prologue) {
      if (!known.contains(tile::result_of(node)) && is_needed(node, needed, stores_))
        copying.copy(node, sum.kernel.epilogue);
    }
  }

  /// Returns a kernel of the reductions alone, which reads what the other stores have stored.
  KernelLaunch ends() const {
    std::map<TileValue, const tile::Store*> stored;
    for (const tile::Store* store : stores_) {
      const auto& argument = kernel_.arguments[static_cast<std::size_t>(store->access.argument)];
      const tile::ValueInfo& info = kernel_.values[index_of(store->value)];
      if (!store->predicate && info.lanes.size() == 1 && info.dtype == argument.dtype)
        stored.emplace(store->value, store);
    }
    KernelLaunch made;
    made.kernel.name = kernel_.name;
    made.kernel.axes = kernel_.axes;
    Copying copying(launch_, made);
    const std::vector<bool> needed = needed_by(ends_, stored);
    std::vector<Node>& section = made.kernel.prologue;
    for (const Node& node : kernel_.prologue) {
      const TileValue result = tile::result_of(node);
      if (const auto found = stored.find(result); found != stored.end() && needed[index_of(result)])
        copying.load_back(result, *found->second, section);
      else if (is_needed(node, needed, ends_))
        copying.copy(node, section);
    }
    return made;
  }

 private:
  using Stores = std::vector<const tile::Store*>;

  /// Returns the values from which `stores` follow, back to those that are known.
  template <class Known>
  std::vector<bool> needed_by(const Stores& stores, const Known& known) const {
    std::vector<bool> needed(kernel_.values.size());
    const auto need = [&](const std::vector<TileValue>& operands) {
      for (const TileValue operand : operands) needed[index_of(operand)] = true;
    };
    for (const tile::Store* store : stores) need(tile::operands_of(Node(*store)));
    for (auto node = kernel_.prologue.rbegin(); node != kernel_.prologue.rend(); ++node) {
      const TileValue result = tile::result_of(*node);
      if (result && needed[index_of(result)] && !known.contains(result)) need(tile::operands_of(*node));
    }
    return needed;
  }

  static bool is_needed(const Node& node, const std::vector<bool>& needed, const Stores& stores) {
    const auto* store = std::get_if<tile::Store>(&node);
    return store != nullptr ? std::ranges::find(stores, store) != stores.end()
                            : needed[index_of(tile::result_of(node))];
  }

  const KernelLaunch& launch_;
  const Kernel& kernel_;
  std::vector<bool> reduced_;  // by value: made from a reduction over lanes
  Stores stores_, ends_;       // those without a reduction, and those with one
};

/// Returns the epilogue's store of a lane's sum at `load`, whose value has the bits of that load; else nullptr.
const tile::Store* store_for(const KernelLaunch& sum, std::int32_t buffer, const KernelLaunch& map,
                             const tile::Load& load) {
  const auto lane = *only_lane(sum.kernel), map_lane = *only_lane(map.kernel);
  const tile::ValueInfo& loaded = map.kernel.values[index_of(load.result)];
  for (const Node& node : sum.kernel.epilogue) {
    const auto* store = std::get_if<tile::Store>(&node);
    if (store == nullptr || sum.buffers[static_cast<std::size_t>(store->access.argument)] != buffer) continue;
    const tile::ValueInfo& stored = sum.kernel.values[index_of(store->value)];
    const tile::Argument& argument = sum.kernel.arguments[static_cast<std::size_t>(store->access.argument)];
    if (!store->predicate && store->access.offset == load.access.offset &&
        store->access.strides[lane] == load.access.strides[map_lane] && loaded.lanes.size() == 1 &&
        stored.lanes.size() == 1 && stored.dtype == argument.dtype && stored.dtype == loaded.dtype)
      return store;
  }
  return nullptr;
}

bool is_sum(const KernelLaunch& launch) {
  const Kernel& kernel = launch.kernel;
  return !launch.is_table() && only_lane(kernel) && kernel.partitions == 1 &&
         std::ranges::find(kernel.axes, AxisUse::row, &tile::Axis::use) != kernel.axes.end();
}

/// Removes a store of the epilogue, and its argument, which no other node has.
void drop_store(KernelLaunch& launch, std::int32_t argument) {
  std::erase_if(launch.kernel.epilogue, [&](const Node& node) {
    const auto* store = std::get_if<tile::Store>(&node);
    return store != nullptr && store->access.argument == argument;
  });
  tile::visit_nodes(launch.kernel, [&](Node& node) {
    std::visit(tile::Overloaded{
                   [&](tile::Random&) {},
                   [&](auto& n) {
                     if constexpr (requires { n.access; }) n.access.argument -= n.access.argument > argument;
                   },
               },
               node);
  });
  launch.kernel.arguments.erase(launch.kernel.arguments.begin() + argument);
  launch.buffers.erase(launch.buffers.begin() + argument);
}

/// Returns the elements over which a launch runs; of a library call: more than any kernel's.
std::int64_t elements_of(const Launch& launch) {
  const auto* kernel = std::get_if<KernelLaunch>(&launch);
  if (kernel == nullptr) return std::numeric_limits<std::int64_t>::max();
  std::int64_t elements = 1;
  for (const tile::Axis& axis : kernel->kernel.axes) elements *= axis.extent;
  return elements;
}

class Appending {
 public:
  explicit Appending(Program& program)
      : program_(program),
        written_(program.buffers.size(), kNever),
        used_(program.buffers.size(), kNever),
        read_by_(program.buffers.size()) {
    for (const Launch& launch : program.launches) {
      for (const Slots::Use& use : Slots::uses_of(launch)) {
        if (!use.writes) read_by_[use.buffer] = std::max(read_by_[use.buffer], elements_of(launch));
      }
    }
  }

  void run() {
    std::vector<bool> gone(program_.launches.size());
    for (std::size_t i = 0; i < program_.launches.size(); ++i) {
      const auto* map = std::get_if<KernelLaunch>(&program_.launches[i]);
      gone[i] = map != nullptr && MapKernel::is_one(*map) && append(i);
      if (gone[i]) continue;
      for (const Slots::Use& use : Slots::uses_of(program_.launches[i])) note(use, static_cast<int>(i));
    }
    std::vector<Launch> launches;
    for (std::size_t i = 0; i < gone.size(); ++i) {
      if (!gone[i]) launches.push_back(std::move(program_.launches[i]));
    }
    program_.launches = std::move(launches);
    drop_unread();
  }

 private:
  static constexpr int kNever = -1;

  void note(const Slots::Use& use, int launch) {
    used_[use.buffer] = std::max(used_[use.buffer], launch);
    if (use.writes) written_[use.buffer] = std::max(written_[use.buffer], launch);
  }

  /// Appends the launch to that of its sums, if it can be. Returns whether nothing of it remains.
  bool append(std::size_t index) {
    auto& map = std::get<KernelLaunch>(program_.launches[index]);
    int at = kNever;
    for (const Slots::Use& use : Slots::uses_of(map)) {
      if (!use.writes) at = std::max(at, written_[use.buffer]);
    }
    auto* sum =
        at == kNever ? nullptr : std::get_if<KernelLaunch>(&program_.launches[static_cast<std::size_t>(at)]);
    if (sum == nullptr || !is_sum(*sum)) return false;
    const std::optional<std::map<TileValue, TileValue>> known = sums_read(*sum, map, at);
    const MapKernel parts(map);
    if (!known || !parts.has_stores() || !is_awaited(map)) return false;
    const KernelLaunch whole = map;
    parts.append_to(*sum, *known);
    tile::verify(sum->kernel);
    appended_.insert(sum->kernel.name);
    for (const Slots::Use& use : Slots::uses_of(whole)) note(use, at);
    std::optional<KernelLaunch> ends;
    if (parts.has_ends()) ends = parts.ends();
    report(*sum, whole, ends ? &*ends : nullptr);
    if (!ends) return true;
    tile::verify(ends->kernel);
    map = std::move(*ends);
    return false;
  }

  /// Returns whether a large launch reads what the map writes. Others can wait until a table has them all.
  bool is_awaited(const KernelLaunch& map) const {
    return std::ranges::any_of(Slots::uses_of(map), [&](const Slots::Use& use) {
      return use.writes && read_by_[use.buffer] >= kLarger * elements_of(map);
    });
  }

  /// Returns the values of the map that the sum at launch `at` stores, as values of the sum. Returns nullopt if the
  /// map reads more of it, or may not run there.
  std::optional<std::map<TileValue, TileValue>> sums_read(const KernelLaunch& sum, const KernelLaunch& map,
                                                          int at) const {
    const auto lane = *only_lane(sum.kernel), map_lane = *only_lane(map.kernel);
    if (sum.kernel.axes[lane].extent != map.kernel.axes[map_lane].extent) return std::nullopt;
    for (const Slots::Use& use : Slots::uses_of(map)) {
      if (use.writes && used_[use.buffer] >= at) return std::nullopt;
    }
    std::map<TileValue, TileValue> known;
    for (const Node& node : map.kernel.prologue) {
      const auto* load = std::get_if<tile::Load>(&node);
      if (load == nullptr) continue;
      const std::int32_t buffer = map.buffers[static_cast<std::size_t>(load->access.argument)];
      if (written_[static_cast<std::size_t>(buffer)] != at) continue;
      const tile::Store* store = store_for(sum, buffer, map, *load);
      if (store == nullptr) return std::nullopt;
      known.emplace(load->result, store->value);
    }
    return known;
  }

  /// Gives the sum the provenance of what it took; `ends` keeps that of its own nodes.
  void report(KernelLaunch& sum, const KernelLaunch& map, KernelLaunch* ends) {
    std::vector<std::string> taken = map.kernel.origin;
    if (ends != nullptr) {
      // Nodes are in the order of their ops, and the text of an op begins with its name.
      std::vector<std::string>& kept = ends->kernel.origin;
      for (auto node = ends->kernel.prologue.rbegin(); node != ends->kernel.prologue.rend(); ++node) {
        if (taken.empty() || !taken.back().starts_with(tile::node_word(*node))) continue;
        kept.insert(kept.begin(), std::move(taken.back()));
        taken.pop_back();
      }
    }
    std::ranges::copy(taken, std::back_inserter(sum.kernel.origin));
    report_on(sum);
    if (ends != nullptr) return report_on(*ends);
    std::erase_if(program_.groups, [&](const GroupReport& one) { return one.kernel == map.kernel.name; });
  }

  void report_on(const KernelLaunch& launch) {
    auto report = std::ranges::find(program_.groups, launch.kernel.name, &GroupReport::kernel);
    if (report == program_.groups.end())
      report = program_.groups.insert(report, {launch.kernel.name, {}, 0, 0, 0, {}});
    report->ops = launch.kernel.origin;
    report->flops = cost_of(program_, launch).flops;
    report->bytes_read = work_of(program_, launch).bytes_read;
    report->bytes_written = cost_of(program_, launch).bytes - report->bytes_read;
  }

  /// Removes stores of temporaries that no other launch uses.
  void drop_unread() {
    std::vector<int> users(program_.buffers.size());
    for (const Launch& launch : program_.launches) {
      for (const Slots::Use& use : Slots::uses_of(launch)) ++users[use.buffer];
    }
    for (Launch& launch : program_.launches) {
      auto* sum = std::get_if<KernelLaunch>(&launch);
      if (sum == nullptr || !appended_.contains(sum->kernel.name)) continue;
      for (std::size_t i = sum->buffers.size(); i-- > 0;) {
        const auto buffer = static_cast<std::size_t>(sum->buffers[i]);
        if (users[buffer] == 1 && program_.buffers[buffer].kind == BufferKind::temporary &&
            sum->kernel.arguments[i].use == tile::ArgumentUse::write)
          drop_store(*sum, static_cast<std::int32_t>(i));
      }
      tile::verify(sum->kernel);
      report_on(*sum);
    }
  }

  Program& program_;
  std::vector<int> written_, used_;    // by buffer: the last launch that writes it, or uses it at all
  std::vector<std::int64_t> read_by_;  // by buffer: elements of the largest launch that reads it
  std::set<std::string> appended_;     // names of the sums
};
}  // namespace

void append_maps(Program& program) {
  Appending(program).run();
}

}  // namespace rewire::codegen
