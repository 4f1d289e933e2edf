// Slots of launches and the bytes that are held at each place, against counting both anew after every move.
#include "codegen/slots.h"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/support/catch.h"

using namespace rewire;
using codegen::Slots;

namespace {

struct Use {
  std::size_t buffer;
  bool writes;
};

/// The same, from the place of each launch alone.
struct ReferenceSlots {
  std::vector<std::size_t> place;      // by launch
  std::vector<std::vector<Use>> uses;  // by launch
  std::vector<std::int64_t> bytes;     // by buffer

  std::vector<std::int64_t> lengths() const {
    std::vector<std::int64_t> held(bytes.size());
    for (std::size_t buffer = 0; buffer < bytes.size(); ++buffer) {
      const auto [first, last] = ends(buffer);
      if (first <= last) held[buffer] = bytes[buffer] * static_cast<std::int64_t>(last - first + 1);
    }
    return held;
  }
  std::int64_t most_live() const {
    std::vector<std::int64_t> live(place.size());
    for (std::size_t buffer = 0; buffer < bytes.size(); ++buffer) {
      const auto [first, last] = ends(buffer);
      for (std::size_t at = first; at <= last && at < live.size(); ++at) live[at] += bytes[buffer];
    }
    return *std::ranges::max_element(live);
  }
  bool passes(std::size_t slot_place, std::size_t begin, std::size_t end) const {
    for (std::size_t a = 0; a < place.size(); ++a) {
      if (place[a] != slot_place) continue;
      for (std::size_t b = 0; b < place.size(); ++b) {
        if (place[b] < begin || place[b] >= end) continue;
        for (const Use& x : uses[a]) {
          for (const Use& y : uses[b]) {
            if (x.buffer == y.buffer && (x.writes || y.writes)) return false;
          }
        }
      }
    }
    return true;
  }

 private:
  std::pair<std::size_t, std::size_t> ends(std::size_t buffer) const {
    std::size_t first = place.size(), last = 0;
    for (std::size_t launch = 0; launch < place.size(); ++launch) {
      for (const Use& use : uses[launch]) {
        if (use.buffer == buffer)
          first = std::min(first, place[launch]), last = std::max(last, place[launch]);
      }
    }
    return {first, last};
  }
};

}  // namespace

TEST_CASE("slots hold as many bytes as are counted anew, whichever way they move, and pass what they may") {
  const unsigned seed = GENERATE(1u, 2u, 3u, 4u, 5u, 6u);
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto draw = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  constexpr std::size_t kLaunches = 60, kBuffers = 90;
  constexpr std::int64_t kLarge = 200;
  codegen::Program program;
  ReferenceSlots reference;
  for (std::size_t i = 0; i < kBuffers; ++i) {
    const bool temporary = draw(4) > 0;
    const auto elements = static_cast<std::int64_t>(1 + draw(100));
    program.buffers.push_back({"t",
                               temporary ? codegen::BufferKind::temporary : codegen::BufferKind::state,
                               {ir::DType::f32, {elements}},
                               {}});
    reference.bytes.push_back(temporary ? 4 * elements : 0);
  }
  for (std::size_t i = 0; i < kLaunches; ++i) {
    codegen::OpCall launch;
    reference.place.push_back(i);
    reference.uses.emplace_back();
    // One that most read, and some near its place.
    for (std::size_t use = 0; use < 3; ++use) {
      const std::size_t buffer = use == 0 ? 0 : (i + draw(12)) % kBuffers;
      const bool writes = use == 2;
      (writes ? launch.results : launch.operands).push_back({static_cast<std::int32_t>(buffer), 0, {1}, {1}});
      reference.uses[i].push_back({buffer, writes});
    }
    program.launches.emplace_back(std::move(launch));
  }
  Slots slots(program, kLarge);
  REQUIRE(slots.most_live() == reference.most_live());
  int united = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::size_t a = slots.slot_of(draw(kLaunches)), b = slots.slot_of(draw(kLaunches));
    if (a == b) continue;
    const std::size_t from = slots.place(a), to = slots.place(b);
    const std::size_t begin = from < to ? from + 1 : to, end = from < to ? to + 1 : from;
    const bool passes = slots.passes(a, begin, end);
    REQUIRE(passes == reference.passes(from, begin, end));
    if (!passes) continue;
    const ReferenceSlots before = reference;
    for (std::size_t& place : reference.place) place = place == from ? to : place;
    std::int64_t bytes = 0;
    bool holds_large = false;
    const std::vector<std::int64_t> was = before.lengths(), is = reference.lengths();
    for (std::size_t i = 0; i < kBuffers; ++i) {
      bytes += is[i] - was[i];
      holds_large = holds_large || (is[i] > was[i] && reference.bytes[i] > kLarge);
    }
    const Slots::Moved moved = slots.move(a, to);
    CHECK(moved.bytes == bytes);
    CHECK(moved.holds_large == holds_large);
    CHECK(slots.most_live() == reference.most_live());
    if (draw(3) == 0) {
      const std::size_t kept = slots.unite(a, b);
      CHECK(slots.place(kept) == to);
      ++united;
    } else {
      slots.move(a, from);
      reference = before;
    }
    REQUIRE(slots.most_live() == reference.most_live());
  }
  CHECK(united > 5);
}
