// Slots; see slots.h.
#include "codegen/slots.h"

#include <algorithm>
#include <bit>
#include <variant>

namespace rewire::codegen {

RangeSums::RangeSums(std::size_t size) : leaves_(std::bit_ceil(std::max<std::size_t>(size, 1))) {
  added_.resize(2 * leaves_);
  largest_.resize(2 * leaves_);
}

void RangeSums::add(std::size_t node, std::size_t begin, std::size_t end, std::size_t first, std::size_t last,
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

std::vector<Slots::Use> Slots::uses_of(const Launch& launch) {
  std::vector<Use> uses;
  const auto add = [&](std::int32_t buffer, bool writes) {
    if (buffer >= 0) uses.push_back({static_cast<std::size_t>(buffer), writes});
  };
  if (const auto* kernel = std::get_if<KernelLaunch>(&launch)) {
    for (std::size_t i = 0; i < kernel->buffers.size(); ++i)
      add(kernel->buffers[i], kernel->kernel.arguments[i].use != tile::ArgumentUse::read);
  } else if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) {
    for (const std::int32_t buffer : gemm->reads()) add(buffer, false);
    for (const std::int32_t buffer : gemm->writes()) add(buffer, true);
  } else {
    const auto& call = std::get<OpCall>(launch);
    for (const View& view : call.operands) add(view.buffer, false);
    for (const View& view : call.results) add(view.buffer, true);
  }
  return uses;
}

Slots::Slots(const Program& program, std::int64_t large)
    : large_(large),
      launches_(program.launches.size()),
      begins_(program.launches.size()),
      ends_(program.launches.size()),
      alone_(program.launches.size()),
      live_(program.launches.size()) {
  const ByPlace order{&place_};
  users_.assign(program.buffers.size(), {SlotSet(order), SlotSet(order)});
  for (std::size_t i = 0; i < program.launches.size(); ++i) {
    for (auto* list : {&place_, &home_, &slot_at_, &slot_of_}) list->push_back(i);
    launches_[i] = {i};
    uses_.push_back(uses_of(program.launches[i]));
    for (const Use& use : uses_[i]) {
      users_[use.buffer].all.insert(i);
      if (use.writes) users_[use.buffer].writing.insert(i);
    }
  }
  for (std::size_t buffer = 0; buffer < users_.size(); ++buffer) {
    const bool temporary =
        program.buffers[buffer].kind == BufferKind::temporary && !users_[buffer].all.empty();
    bytes_.push_back(temporary ? program.buffers[buffer].type.bytes() : 0);
    note(buffer, 1);
  }
}

// Collects the slots other than `slot` at [begin, end). Returns false, with only some of them, once they
// have more launches than `slot`.
bool Slots::between(std::size_t slot, std::size_t begin, std::size_t end,
                    std::vector<std::size_t>& others) const {
  std::size_t launches = 0;
  for (std::size_t place = begin; place < end; ++place) {
    const std::size_t other = slot_at_[place];
    if (other == kNone || other == slot) continue;
    others.push_back(other);
    launches += launches_[other].size();
    if (launches > launches_[slot].size()) return false;
  }
  return true;
}

bool Slots::passes(std::size_t slot, std::size_t begin, std::size_t end) const {
  std::vector<std::size_t> others;
  if (!between(slot, begin, end, others)) {
    return std::ranges::none_of(launches_[slot], [&](std::size_t launch) {
      return std::ranges::any_of(uses_[launch], [&](const Use& use) {
        const SlotSet& users = use.writes ? users_[use.buffer].all : users_[use.buffer].writing;
        const auto it = users.lower_bound(At{begin});
        return it != users.end() && place_[*it] < end;
      });
    });
  }
  return std::ranges::none_of(others, [&](std::size_t other) {
    return std::ranges::any_of(launches_[other], [&](std::size_t launch) {
      return std::ranges::any_of(uses_[launch], [&](const Use& use) {
        return (use.writes ? users_[use.buffer].all : users_[use.buffer].writing).contains(slot);
      });
    });
  });
}

// Returns the slot's buffers that other slots at [begin, end) use too, or all of the slot's buffers if that
// is less work.
std::vector<std::size_t> Slots::buffers_met(std::size_t slot, std::size_t begin, std::size_t end) const {
  std::vector<std::size_t> others, buffers;
  const bool few = between(slot, begin, end, others);
  if (!few) others = {slot};
  for (const std::size_t other : others) {
    for (const std::size_t launch : launches_[other]) {
      for (const Use& use : uses_[launch]) {
        if (!few || users_[use.buffer].all.contains(slot)) buffers.push_back(use.buffer);
      }
    }
  }
  std::sort(buffers.begin(), buffers.end());
  buffers.erase(std::unique(buffers.begin(), buffers.end()), buffers.end());
  return buffers;
}

// Adds (or subtracts) a buffer's bytes wherever it is live. Returns those bytes, summed over places.
std::int64_t Slots::note(std::size_t buffer, std::int64_t sign) {
  const std::int64_t bytes = bytes_[buffer];
  if (bytes == 0) return 0;
  const std::size_t first = *users_[buffer].all.begin(), last = *users_[buffer].all.rbegin();
  if (first == last) {
    alone_[first] += sign * bytes;
  } else {
    for (Ends* ends : {&begins_[first], &ends_[last]}) {
      ends->bytes += sign * bytes;
      ends->large += bytes > large_ ? sign : 0;
    }
  }
  live_.add(place_[first], place_[last], sign * bytes);
  return bytes * static_cast<std::int64_t>(place_[last] - place_[first] + 1);
}

// Moves the bytes of buffers that no slot on the way uses: those that end with the slot live until its new
// place, and those that begin with it live from there on.
void Slots::shift(std::size_t slot, std::size_t to, Moved& moved) {
  const std::size_t from = place_[slot];
  const std::int64_t more = ends_[slot].bytes - begins_[slot].bytes;  // per place that it moves down
  if (from < to) {
    live_.add(from + 1, to, ends_[slot].bytes);
    live_.add(from, to - 1, -begins_[slot].bytes);
    moved.bytes += static_cast<std::int64_t>(to - from) * more;
    moved.holds_large = ends_[slot].large > 0;
  } else {
    live_.add(to + 1, from, -ends_[slot].bytes);
    live_.add(to, from - 1, begins_[slot].bytes);
    moved.bytes -= static_cast<std::int64_t>(from - to) * more;
    moved.holds_large = begins_[slot].large > 0;
  }
  live_.add(from, from, -alone_[slot]);
  live_.add(to, to, alone_[slot]);
  place_[slot] = to;
}

Slots::Moved Slots::move(std::size_t slot, std::size_t to) {
  const std::size_t from = place_[slot];
  Moved moved;
  if (from == to) return moved;
  struct Met {
    std::size_t buffer;
    bool writes;
    std::int64_t held;
  };
  std::vector<Met> met;
  for (const std::size_t buffer : buffers_met(slot, std::min(from, to), std::max(from, to) + 1)) {
    met.push_back({buffer, users_[buffer].writing.contains(slot), note(buffer, -1)});
    users_[buffer].all.erase(slot);
    users_[buffer].writing.erase(slot);
  }
  shift(slot, to, moved);
  for (const auto& [buffer, writes, held] : met) {
    users_[buffer].all.insert(slot);
    if (writes) users_[buffer].writing.insert(slot);
    const std::int64_t more = note(buffer, 1) - held;
    moved.bytes += more;
    moved.holds_large = moved.holds_large || (more > 0 && bytes_[buffer] > large_);
  }
  return moved;
}

std::size_t Slots::unite(std::size_t a, std::size_t b) {
  const bool keeps_a = launches_[a].size() >= launches_[b].size();
  const std::size_t kept = keeps_a ? a : b, gone = keeps_a ? b : a;
  for (const std::size_t launch : launches_[gone]) {
    slot_of_[launch] = kept;
    for (const Use& use : uses_[launch]) {
      Users& users = users_[use.buffer];
      if (!users.all.contains(gone)) continue;  // already done for another use
      const bool writes = users.writing.contains(gone);
      note(use.buffer, -1);
      users.all.erase(gone);
      users.writing.erase(gone);
      users.all.insert(kept);
      if (writes) users.writing.insert(kept);
      note(use.buffer, 1);
    }
  }
  launches_[kept].insert(launches_[kept].end(), launches_[gone].begin(), launches_[gone].end());
  launches_[gone].clear();
  slot_at_[home_[a]] = slot_at_[home_[b]] = kNone;
  slot_at_[place_[kept]] = kept;
  home_[kept] = place_[kept];
  return kept;
}

}  // namespace rewire::codegen
