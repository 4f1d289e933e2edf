// Slots: the places of launches while tables are made, and the bytes of temporaries held at each place. A
// slot may have many launches. The cost of its move grows with what is between its old place and its new
// one, not with what it holds: most of its buffers have no user there, and the buffers that begin or end
// with the slot are kept as sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "codegen/program.h"

namespace rewire::codegen {

/// Holds a number for each place: adds a summand to a range, and knows the largest number at once.
class RangeSums {
 public:
  explicit RangeSums(std::size_t size);
  std::int64_t largest() const { return largest_[1]; }
  void add(std::size_t first, std::size_t last, std::int64_t more) { add(1, 0, leaves_, first, last, more); }

 private:
  void add(std::size_t node, std::size_t begin, std::size_t end, std::size_t first, std::size_t last,
           std::int64_t more);

  std::size_t leaves_;
  std::vector<std::int64_t> added_, largest_;  // by tree node: added to all below it; largest below it
};

class Slots {
 public:
  struct Use {
    std::size_t buffer;
    bool writes;
  };
  /// Returns the buffers of a launch; one that it reads and writes may be there twice.
  static std::vector<Use> uses_of(const Launch& launch);

  /// Puts each launch into a slot of its own, at its place in the program. Buffers of more than `large`
  /// bytes count as large in Moved.
  Slots(const Program& program, std::int64_t large);
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  std::size_t count() const { return place_.size(); }
  std::size_t slot_of(std::size_t launch) const { return slot_of_[launch]; }
  std::size_t place(std::size_t slot) const { return place_[slot]; }
  /// Returns a slot's launches, in no order; none if the slot has become part of another.
  const std::vector<std::size_t>& launches(std::size_t slot) const { return launches_[slot]; }
  /// Returns the most bytes held at any place.
  std::int64_t most_live() const { return live_.largest(); }

  /// Returns whether a slot outside of [begin, end) may run before or after all slots there.
  bool passes(std::size_t slot, std::size_t begin, std::size_t end) const;

  struct Moved {
    std::int64_t bytes = 0;    // held in addition, summed over places
    bool holds_large = false;  // a large buffer is held longer
  };
  /// Moves a slot to another's place, to be united with it, or back. It must pass the slots in between.
  Moved move(std::size_t slot, std::size_t to);
  /// Unites two slots at one place; returns the one that is left.
  std::size_t unite(std::size_t a, std::size_t b);

 private:
  struct At {
    std::size_t place;
  };
  struct ByPlace {
    using is_transparent = void;
    const std::vector<std::size_t>* places;
    bool operator()(std::size_t a, std::size_t b) const {
      return (*places)[a] != (*places)[b] ? (*places)[a] < (*places)[b] : a < b;
    }
    bool operator()(std::size_t a, At b) const { return (*places)[a] < b.place; }
    bool operator()(At a, std::size_t b) const { return a.place < (*places)[b]; }
  };
  using SlotSet = std::set<std::size_t, ByPlace>;
  /// The slots that touch a buffer.
  struct Users {
    SlotSet all, writing;
  };
  /// The temporaries that a slot uses first, or last, and other slots use too: their bytes, and how many are
  /// large.
  struct Ends {
    std::int64_t bytes = 0, large = 0;
  };

  bool between(std::size_t slot, std::size_t begin, std::size_t end, std::vector<std::size_t>& others) const;
  std::vector<std::size_t> buffers_met(std::size_t slot, std::size_t begin, std::size_t end) const;
  std::int64_t note(std::size_t buffer, std::int64_t sign);
  void shift(std::size_t slot, std::size_t to, Moved& moved);

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  const std::int64_t large_;
  std::vector<std::size_t> place_;                  // by slot
  std::vector<std::size_t> home_;                   // by slot: its place apart from trial moves
  std::vector<std::size_t> slot_at_;                // by home
  std::vector<std::vector<std::size_t>> launches_;  // by slot
  std::vector<std::size_t> slot_of_;                // by launch
  std::vector<std::vector<Use>> uses_;              // by launch
  std::vector<Users> users_;                        // by buffer
  std::vector<std::int64_t> bytes_;                 // by buffer: what a temporary holds
  std::vector<Ends> begins_, ends_;                 // by slot
  std::vector<std::int64_t> alone_;                 // by slot: bytes that no other slot uses
  RangeSums live_;                                  // by place: bytes of temporaries
};

}  // namespace rewire::codegen
