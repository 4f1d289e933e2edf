// Places slots by first fit, the largest slots first.
#include "codegen/llvm/place_slots.h"

#include <algorithm>
#include <numeric>

namespace rewire::codegen::cpu {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t element_bytes(ir::DType dtype) {
  const bool narrow = dtype == ir::DType::bf16 || dtype == ir::DType::f16;  // f32 in registers
  return static_cast<std::int64_t>(ir::dtype_bytes(narrow ? ir::DType::f32 : dtype));
}

class SlotPlacer {
 public:
  SlotPlacer(LoopProgram& program, const std::vector<SlotLife>& lives,
             const std::vector<std::int32_t>& root_axes)
      : program_(program), lives_(lives), root_axes_(root_axes), host_(program.slots.size(), -1) {}

  void run(const std::set<std::int32_t>& scalar_axes) {
    for (std::size_t slot = 0; slot < lives_.size(); ++slot) {
      Slot& own = program_.slots[slot];
      own.registers = own.lanes.empty() ||
                      (own.lanes.size() == 1 && !lives_[slot].memory && !scalar_axes.contains(own.lanes[0]) &&
                       program_.unrolled[static_cast<std::size_t>(own.lanes[0])]);
    }
    for (std::size_t slot = 0; slot < lives_.size(); ++slot) take_place(slot);
    place_all();
  }

 private:
  std::int64_t bytes(std::size_t slot) const {
    std::int64_t result = element_bytes(program_.slots[slot].dtype);
    for (std::int64_t extent : program_.slot_extents(program_.slots[slot])) result *= extent;
    return (result + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// Returns whether slot `to` may take the place of slot `from`: in the step that writes `to`, every reader
  /// of `from` is at the same element of the same loops, and not after the writer.
  bool may_replace(std::size_t from, std::size_t to) const {
    const Slot& a = program_.slots[from];
    const Slot& b = program_.slots[to];
    const SlotLife& read = lives_[from];
    const SlotLife& write = lives_[to];
    return !a.registers && !b.registers && a.lanes == b.lanes && a.dtype == b.dtype && !a.packed &&
           !b.packed && write.point_by_point && read.written < write.written && read.last == write.first &&
           read.read <= write.written && root_axes_[static_cast<std::size_t>(write.first)] == b.lanes[0];
  }

  void take_place(std::size_t slot) {
    for (std::size_t other = 0; other < lives_.size(); ++other) {
      const bool taken =
          std::find(host_.begin(), host_.end(), static_cast<std::int32_t>(other)) != host_.end();
      if (other == slot || taken || !may_replace(other, slot)) continue;
      host_[slot] = static_cast<std::int32_t>(other);
      return;
    }
  }

  std::size_t root_of(std::size_t slot) const {
    while (host_[slot] >= 0) slot = static_cast<std::size_t>(host_[slot]);
    return slot;
  }

  void place_all() {
    std::vector<SlotLife> lives = lives_;
    std::vector<std::size_t> order;
    for (std::size_t slot = 0; slot < lives.size(); ++slot) {
      const std::size_t root = root_of(slot);
      lives[root].first = std::min(lives[root].first, lives[slot].first);
      lives[root].last = std::max(lives[root].last, lives[slot].last);
      if (root == slot && !program_.slots[slot].registers) order.push_back(slot);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return bytes(a) > bytes(b); });
    std::vector<std::size_t> placed;
    for (std::size_t slot : order) {
      program_.slots[slot].offset = free_offset(slot, placed, lives);
      placed.push_back(slot);
      program_.scratch_bytes = std::max(program_.scratch_bytes, program_.slots[slot].offset + bytes(slot));
    }
    for (std::size_t slot = 0; slot < lives.size(); ++slot) {
      program_.slots[slot].offset = program_.slots[root_of(slot)].offset;
    }
  }

  /// Returns the lowest offset that no slot occupies that is alive at the same time.
  std::int64_t free_offset(std::size_t slot, const std::vector<std::size_t>& placed,
                           const std::vector<SlotLife>& lives) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (std::size_t other : placed) {
      if (lives[other].first > lives[slot].last || lives[slot].first > lives[other].last) continue;
      taken.emplace_back(program_.slots[other].offset, program_.slots[other].offset + bytes(other));
    }
    std::sort(taken.begin(), taken.end());
    std::int64_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + bytes(slot) <= begin) break;
      offset = std::max(offset, end);
    }
    return offset;
  }

  LoopProgram& program_;
  const std::vector<SlotLife>& lives_;
  const std::vector<std::int32_t>& root_axes_;
  std::vector<std::int32_t> host_;  // by slot: the slot whose place it takes
};

}  // namespace

void place_slots(LoopProgram& program, const std::vector<SlotLife>& lives,
                 const std::vector<std::int32_t>& root_axes, const std::set<std::int32_t>& scalar_axes) {
  SlotPlacer(program, lives, root_axes).run(scalar_axes);
}

}  // namespace rewire::codegen::cpu
