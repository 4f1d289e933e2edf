// Slots are the places of the launches before the pass; each holds the launches that run there. Two slots of
// one structure merge by moving one to the other past everything between; see tables.h.
#include "codegen/tables.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace rewire::codegen {
namespace {

constexpr std::uint8_t kReads = 1, kWrites = 2;

struct Use {
  std::size_t buffer;
  std::uint8_t how;
};

/// Numbers by slot: a range takes a summand, and the largest of all is known at once.
class RangeSums {
 public:
  explicit RangeSums(std::size_t size) : leaves_(std::bit_ceil(std::max<std::size_t>(size, 1))) {
    added_.resize(2 * leaves_);
    largest_.resize(2 * leaves_);
  }

  std::int64_t largest() const { return largest_[1]; }
  void add(std::size_t first, std::size_t last, std::int64_t more) { add(1, 0, leaves_, first, last, more); }

 private:
  void add(std::size_t node, std::size_t begin, std::size_t end, std::size_t first, std::size_t last,
           std::int64_t more) {
    if (last < begin || end <= first) return;
    if (first <= begin && end <= last + 1) {
      added_[node] += more;
      largest_[node] += more;
      return;
    }
    const std::size_t middle = begin + (end - begin) / 2;
    add(2 * node, begin, middle, first, last, more);
    add(2 * node + 1, middle, end, first, last, more);
    largest_[node] = added_[node] + std::max(largest_[2 * node], largest_[2 * node + 1]);
  }

  std::size_t leaves_;
  std::vector<std::int64_t> added_, largest_;  // by node of a binary tree: to all below it; of all below it
};

/// Where the launches that touch a buffer stand: each slot once a launch.
struct Places {
  std::multiset<std::size_t> all, writing;
};

bool any_in(const std::multiset<std::size_t>& places, std::size_t begin, std::size_t end) {
  const auto it = places.lower_bound(begin);
  return it != places.end() && *it < end;
}

std::vector<Use> uses_of(const Launch& launch) {
  std::vector<Use> uses;
  const auto add = [&](std::int32_t buffer, std::uint8_t how) {
    if (buffer >= 0) uses.push_back({static_cast<std::size_t>(buffer), how});
  };
  if (const auto* kernel = std::get_if<KernelLaunch>(&launch)) {
    for (std::size_t i = 0; i < kernel->buffers.size(); ++i) {
      const tile::ArgumentUse use = kernel->kernel.arguments[i].use;
      add(kernel->buffers[i], use == tile::ArgumentUse::read    ? kReads
                              : use == tile::ArgumentUse::write ? kWrites
                                                                : kReads | kWrites);
    }
  } else if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) {
    for (const std::int32_t buffer : gemm->reads()) add(buffer, kReads);
    for (const std::int32_t buffer : gemm->writes()) add(buffer, kWrites);
  } else if (const auto* attention = std::get_if<AttentionLaunch>(&launch)) {
    for (const View* view : attention->reads()) add(view->buffer, kReads);
    for (const View* view : attention->writes()) add(view->buffer, kWrites);
  } else {
    const auto& host = std::get<HostLaunch>(launch);
    for (const View& view : host.operands) add(view.buffer, kReads);
    for (const View& view : host.results) add(view.buffer, kWrites);
  }
  return uses;
}

class Merging {
 public:
  Merging(Program& program, std::int64_t table_bytes)
      : program_(program),
        table_bytes_(table_bytes),
        slots_(program.launches.size()),
        slot_of_(program.launches.size()),
        places_(program.buffers.size()),
        live_(program.launches.size()) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i] = {i};
      slot_of_[i] = i;
      uses_.push_back(uses_of(program.launches[i]));
      place(i, i);
    }
    for (std::size_t buffer = 0; buffer < places_.size(); ++buffer) {
      const bool temporary =
          program.buffers[buffer].kind == BufferKind::temporary && !places_[buffer].all.empty();
      bytes_.push_back(temporary ? program.buffers[buffer].type.bytes() : 0);
      hold(buffer, 1);
    }
    most_live_ = live_.largest() + table_bytes_;
  }

  void run() {
    const std::vector<std::vector<std::size_t>> classes = structures();
    // What a table frees the way for may merge in the next round.
    for (bool merged = true; merged;) {
      merged = false;
      for (const std::vector<std::size_t>& launches : classes) merged = merge_class(launches) || merged;
    }
    rebuild();
  }

 private:
  /// The launches of each structure that has several, in order.
  std::vector<std::vector<std::size_t>> structures() const {
    std::map<std::string, std::size_t> known;
    std::vector<std::vector<std::size_t>> classes;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
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
    std::vector<std::size_t> places;
    for (const std::size_t launch : launches) places.push_back(slot_of_[launch]);
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    bool merged = false;
    std::size_t table = places[0];
    for (std::size_t i = 1; i < places.size(); ++i) {
      const std::optional<std::size_t> place = merge(table, places[i]);
      merged = merged || place.has_value();
      table = place.value_or(places[i]);
    }
    return merged;
  }

  /// Where the launches of both slots stand now; nullopt: where they stood.
  std::optional<std::size_t> merge(std::size_t earlier, std::size_t later) {
    std::optional<std::int64_t> cost_up, cost_down;
    if (passes(later, earlier, later)) cost_up = try_move(later, earlier);
    const bool free = cost_up && *cost_up <= 0;  // then a look at the other way is not worth its time
    if (cost_up && !free) move(slots_[later], later);
    if (!free && passes(earlier, earlier + 1, later + 1)) cost_down = try_move(earlier, later);
    if (!cost_up && !cost_down) return std::nullopt;
    const bool to_earlier = cost_up && (free || !cost_down || *cost_up <= *cost_down);
    const std::size_t from = to_earlier ? later : earlier, to = to_earlier ? earlier : later;
    if (to_earlier && cost_down) move(slots_[earlier], earlier);
    if (to_earlier && !free) move(slots_[later], earlier);
    slots_[to].insert(slots_[to].end(), slots_[from].begin(), slots_[from].end());
    slots_[from].clear();
    return to;
  }

  /// Whether the launches of a slot may run before or after all of those in [begin, end), where it is not.
  bool passes(std::size_t slot, std::size_t begin, std::size_t end) const {
    return std::ranges::none_of(slots_[slot], [&](std::size_t launch) {
      return std::ranges::any_of(uses_[launch], [&](const Use& use) {
        const Places& places = places_[use.buffer];
        return any_in((use.how & kWrites) != 0 ? places.all : places.writing, begin, end);
      });
    });
  }

  struct Moved {
    std::int64_t bytes = 0;  // held more than before, summed over launches
    bool fits = true;        // no large tensor is held longer
  };

  /// Moves the launches of a slot, and says what that adds to the bytes held; nullopt where it is not worth
  /// that, and they stay.
  std::optional<std::int64_t> try_move(std::size_t from, std::size_t to) {
    const Moved moved = move(slots_[from], to);
    if (moved.fits && live_.largest() <= most_live_) return moved.bytes;
    move(slots_[from], from);
    return std::nullopt;
  }

  Moved move(const std::vector<std::size_t>& launches, std::size_t to) {
    std::vector<std::size_t> buffers;
    for (const std::size_t launch : launches) {
      for (const Use& use : uses_[launch]) buffers.push_back(use.buffer);
    }
    std::sort(buffers.begin(), buffers.end());
    buffers.erase(std::unique(buffers.begin(), buffers.end()), buffers.end());
    std::vector<std::int64_t> before;
    for (const std::size_t buffer : buffers) before.push_back(hold(buffer, -1));
    for (const std::size_t launch : launches) {
      remove(launch, slot_of_[launch]);
      place(launch, to);
      slot_of_[launch] = to;
    }
    Moved moved;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const std::int64_t more = hold(buffers[i], 1) - before[i];
      moved.bytes += more;
      if (more > 0 && bytes_[buffers[i]] > table_bytes_) moved.fits = false;
    }
    return moved;
  }

  /// Adds (or takes) a buffer's bytes wherever it is live; those bytes, summed over launches.
  std::int64_t hold(std::size_t buffer, std::int64_t sign) {
    const std::int64_t bytes = bytes_[buffer];
    if (bytes == 0) return 0;
    const std::multiset<std::size_t>& places = places_[buffer].all;
    live_.add(*places.begin(), *places.rbegin(), sign * bytes);
    return bytes * static_cast<std::int64_t>(*places.rbegin() - *places.begin() + 1);
  }

  void place(std::size_t launch, std::size_t slot) {
    for (const Use& use : uses_[launch]) {
      places_[use.buffer].all.insert(slot);
      if ((use.how & kWrites) != 0) places_[use.buffer].writing.insert(slot);
    }
  }

  void remove(std::size_t launch, std::size_t slot) {
    for (const Use& use : uses_[launch]) {
      Places& places = places_[use.buffer];
      places.all.erase(places.all.find(slot));
      if ((use.how & kWrites) != 0) places.writing.erase(places.writing.find(slot));
    }
  }

  void rebuild() {
    std::vector<Launch> launches;
    for (std::vector<std::size_t>& slot : slots_) {
      if (slot.empty()) continue;
      std::sort(slot.begin(), slot.end());
      launches.push_back(std::move(program_.launches[slot[0]]));
      for (std::size_t i = 1; i < slot.size(); ++i) {
        auto& member = std::get<KernelLaunch>(program_.launches[slot[i]]);
        std::get<KernelLaunch>(launches.back())
            .others.push_back({std::move(member.kernel.name), std::move(member.buffers)});
      }
    }
    program_.launches = std::move(launches);
  }

  Program& program_;
  const std::int64_t table_bytes_;
  std::vector<std::vector<std::size_t>> slots_;  // the launches of each slot
  std::vector<std::size_t> slot_of_;             // by launch
  std::vector<std::vector<Use>> uses_;           // by launch
  std::vector<Places> places_;                   // by buffer
  std::vector<std::int64_t> bytes_;              // by buffer: what a temporary holds
  RangeSums live_;                               // by slot: bytes of temporaries
  std::int64_t most_live_ = 0;                   // that may be
};

}  // namespace

void merge_launches(Program& program, const WorkGrain& grain) {
  Merging(program, grain.table_bytes).run();
}

}  // namespace rewire::codegen
