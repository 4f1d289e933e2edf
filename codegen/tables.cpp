// Each launch begins in a slot of its own (slots.h). Two slots of one structure merge: one moves to the
// other's place, past everything in between; see tables.h.
#include "codegen/tables.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "codegen/slots.h"

namespace rewire::codegen {
namespace {

class Merging {
 public:
  Merging(Program& program, std::int64_t table_bytes)
      : program_(program), slots_(program, table_bytes), most_live_(slots_.most_live() + table_bytes) {}

  void run() {
    const std::vector<std::vector<std::size_t>> classes = structures();
    // A merge may clear the way for another one, which then happens in the next round.
    for (bool merged = true; merged;) {
      merged = false;
      for (const std::vector<std::size_t>& launches : classes) merged = merge_class(launches) || merged;
    }
    rebuild();
  }

 private:
  /// Returns the launches of each structure that has several, in order.
  std::vector<std::vector<std::size_t>> structures() const {
    std::map<std::string, std::size_t> known;
    std::vector<std::vector<std::size_t>> classes;
    for (std::size_t i = 0; i < program_.launches.size(); ++i) {
      const auto* kernel = std::get_if<KernelLaunch>(&program_.launches[i]);
      if (kernel == nullptr) continue;
      const auto [it, fresh] = known.emplace(tile::structure(kernel->kernel), classes.size());
      if (fresh) classes.emplace_back();
      classes[it->second].push_back(i);
    }
    std::erase_if(classes, [](const auto& launches) { return launches.size() < 2; });
    return classes;
  }

  bool merge_class(const std::vector<std::size_t>& launches) {
    std::vector<std::size_t> slots;
    for (const std::size_t launch : launches) slots.push_back(slots_.slot_of(launch));
    std::ranges::sort(slots, {}, [&](std::size_t slot) { return slots_.place(slot); });
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    bool merged = false;
    std::size_t table = slots[0];
    for (std::size_t i = 1; i < slots.size(); ++i) {
      const std::optional<std::size_t> whole = merge(table, slots[i]);
      merged = merged || whole.has_value();
      table = whole.value_or(slots[i]);
    }
    return merged;
  }

  /// Merges two slots. Returns the slot that both have become; nullopt: they stay at their places.
  std::optional<std::size_t> merge(std::size_t earlier, std::size_t later) {
    const std::size_t up = slots_.place(earlier), down = slots_.place(later);
    std::optional<std::int64_t> cost_up, cost_down;
    if (slots_.passes(later, up, down)) cost_up = try_move(later, up);
    const bool free = cost_up && *cost_up <= 0;  // then the other direction is not worth a try
    if (cost_up && !free) slots_.move(later, down);
    if (!free && slots_.passes(earlier, up + 1, down + 1)) cost_down = try_move(earlier, down);
    if (!cost_up && !cost_down) return std::nullopt;
    const bool to_earlier = cost_up && (free || !cost_down || *cost_up <= *cost_down);
    if (to_earlier && cost_down) slots_.move(earlier, up);
    if (to_earlier && !free) slots_.move(later, up);
    return slots_.unite(earlier, later);
  }

  /// Moves the launches of a slot, and returns the bytes held in addition. Returns nullopt, and moves
  /// nothing, if that would hold a large buffer longer or too many bytes at once.
  std::optional<std::int64_t> try_move(std::size_t slot, std::size_t to) {
    const std::size_t from = slots_.place(slot);
    const Slots::Moved moved = slots_.move(slot, to);
    if (!moved.holds_large && slots_.most_live() <= most_live_) return moved.bytes;
    slots_.move(slot, from);
    return std::nullopt;
  }

  void rebuild() {
    std::vector<std::size_t> order;
    for (std::size_t slot = 0; slot < slots_.count(); ++slot) {
      if (!slots_.launches(slot).empty()) order.push_back(slot);
    }
    std::ranges::sort(order, {}, [&](std::size_t slot) { return slots_.place(slot); });
    std::vector<Launch> launches;
    for (const std::size_t slot : order) {
      std::vector<std::size_t> members = slots_.launches(slot);
      std::sort(members.begin(), members.end());
      launches.push_back(std::move(program_.launches[members[0]]));
      for (std::size_t i = 1; i < members.size(); ++i) {
        auto& member = std::get<KernelLaunch>(program_.launches[members[i]]);
        std::get<KernelLaunch>(launches.back())
            .others.push_back({std::move(member.kernel.name), std::move(member.buffers)});
      }
    }
    program_.launches = std::move(launches);
  }

  Program& program_;
  Slots slots_;
  const std::int64_t most_live_;  // the limit of Slots::most_live()
};

}  // namespace

void merge_launches(Program& program, const WorkGrain& grain) {
  Merging(program, grain.table_bytes).run();
}

}  // namespace rewire::codegen
