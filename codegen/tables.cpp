// Slots are the places of the launches before the pass; each holds the launches that run there. Two slots of
// one structure merge by moving one to the other past everything between; see tables.h.
#include "codegen/tables.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace rewire::codegen {
namespace {

constexpr std::uint8_t kReads = 1, kWrites = 2;

struct Use {
  std::size_t buffer;
  std::uint8_t how;
};

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
        users_(program.buffers.size()),
        marks_(program.buffers.size()),
        live_(program.launches.size()) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i] = {i};
      slot_of_[i] = i;
      uses_.push_back(uses_of(program.launches[i]));
      for (const Use& use : uses_[i]) users_[use.buffer].push_back(i);
    }
    for (std::size_t buffer = 0; buffer < users_.size(); ++buffer) {
      const bool temporary = program.buffers[buffer].kind == BufferKind::temporary && !users_[buffer].empty();
      bytes_.push_back(temporary ? program.buffers[buffer].type.bytes() : 0);
      hold(buffer, 1);
    }
    if (!live_.empty()) most_live_ = *std::max_element(live_.begin(), live_.end()) + table_bytes_;
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
    if (passes(later, earlier, later)) cost_up = cost_of_move(later, earlier);
    const bool free = cost_up && *cost_up <= 0;  // then a look at the other way is not worth its time
    if (!free && passes(earlier, earlier + 1, later + 1)) cost_down = cost_of_move(earlier, later);
    if (!cost_up && !cost_down) return std::nullopt;
    const bool to_earlier = cost_up && (free || !cost_down || *cost_up <= *cost_down);
    const std::size_t from = to_earlier ? later : earlier, to = to_earlier ? earlier : later;
    move(slots_[from], to);
    slots_[to].insert(slots_[to].end(), slots_[from].begin(), slots_[from].end());
    slots_[from].clear();
    return to;
  }

  /// Whether the launches of a slot may run before or after all of those in [begin, end).
  bool passes(std::size_t slot, std::size_t begin, std::size_t end) {
    for (const std::size_t launch : slots_[slot]) {
      for (const Use& use : uses_[launch]) marks_[use.buffer] |= use.how;
    }
    const auto depends = [&](std::size_t launch) {
      return std::any_of(uses_[launch].begin(), uses_[launch].end(), [&](const Use& use) {
        return ((marks_[use.buffer] | use.how) & kWrites) != 0 && marks_[use.buffer] != 0;
      });
    };
    bool free = true;
    for (std::size_t other = begin; other < end && free; ++other) {
      if (other != slot) free = std::none_of(slots_[other].begin(), slots_[other].end(), depends);
    }
    for (const std::size_t launch : slots_[slot]) {
      for (const Use& use : uses_[launch]) marks_[use.buffer] = 0;
    }
    return free;
  }

  struct Moved {
    std::int64_t bytes = 0;  // held more than before, summed over launches
    bool fits = true;        // no large tensor is held longer
  };

  /// What moving the launches of a slot adds to the bytes held; nullopt where that is not worth it.
  std::optional<std::int64_t> cost_of_move(std::size_t from, std::size_t to) {
    const Moved moved = move(slots_[from], to);
    const bool fits = moved.fits && std::all_of(live_.begin(), live_.end(),
                                                [&](std::int64_t bytes) { return bytes <= most_live_; });
    move(slots_[from], from);
    return fits ? std::optional(moved.bytes) : std::nullopt;
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
    for (const std::size_t launch : launches) slot_of_[launch] = to;
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
    std::size_t first = std::numeric_limits<std::size_t>::max(), last = 0;
    for (const std::size_t launch : users_[buffer]) {
      first = std::min(first, slot_of_[launch]);
      last = std::max(last, slot_of_[launch]);
    }
    for (std::size_t at = first; at <= last; ++at) live_[at] += sign * bytes;
    return bytes * static_cast<std::int64_t>(last - first + 1);
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
  std::vector<std::vector<std::size_t>> users_;  // by buffer: the launches that touch it
  std::vector<std::int64_t> bytes_;              // by buffer: what a temporary holds
  std::vector<std::uint8_t> marks_;              // by buffer: how the slot that is moved uses it
  std::vector<std::int64_t> live_;               // by slot: bytes of temporaries
  std::int64_t most_live_ = 0;                   // that may be
};

}  // namespace

void merge_launches(Program& program, const WorkGrain& grain) {
  Merging(program, grain.table_bytes).run();
}

}  // namespace rewire::codegen
