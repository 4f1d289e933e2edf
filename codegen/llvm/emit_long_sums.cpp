// Sums of many floats in two levels: kChain terms are added up from 0, then their sum is added to the total.
// Added one after the other, n equal terms (a ReLU leaves many) may lose up to n / 2 units in the last
// place, each in the same direction. In two levels, they may lose kChain + n / kChain units. A sum of up to
// 2 kChain terms stays one chain. So do sums whose result has lanes inside of the summed axis, sums of
// scalars, and sums carried from row to row beyond kTotalBytes.
#include <algorithm>

#include "codegen/llvm/emitter.h"
#include "codegen/tile/walk.h"
#include "ir/error.h"
#include "ir/opcodes.h"

namespace rewire::codegen::cpu {

using llvm::Value;

namespace {

constexpr std::int64_t kChain = 64;
/// The most bytes of a thread's stack that the totals of carried sums may take.
constexpr std::int64_t kTotalBytes = 65536;

}  // namespace

/// Returns the trips of a vector loop in one chain; 0: all.
std::int64_t Emitter::chain_of(const Loop& lane_loop, std::int64_t trips) const {
  const bool sums = std::ranges::any_of(lane_loop.reductions, [&](std::int32_t node) {
    const auto& reduce = std::get<tile::Reduce>(at(node));
    return reduce.kind == tile::ReduceKind::sum && ir::is_float(program_.info(reduce.result).dtype) &&
           !accumulates_in_slot(reduce);
  });
  return sums && trips > 2 * kChain ? kChain : 0;
}

/// Adds the accumulators of the loop's sums to their totals (made by chained_loop), and resets them.
void Emitter::move_to_totals(const Loop& lane_loop, std::map<std::int32_t, std::vector<Value*>>& totals) {
  for (const std::int32_t node : lane_loop.reductions) {
    const auto& reduce = std::get<tile::Reduce>(at(node));
    if (reduce.kind != tile::ReduceKind::sum || accumulates_in_slot(reduce)) continue;
    const ir::DType dtype = program_.info(reduce.result).dtype;
    for (std::size_t u = 0; u < accumulators_[node].size(); ++u) {
      Value* sum = accumulators_[node][u];
      llvm::Type* type = llvm::cast<llvm::AllocaInst>(sum)->getAllocatedType();
      Value* total = totals.at(node)[u];
      builder_.CreateStore(
          combine(reduce.kind, dtype, builder_.CreateLoad(type, total), builder_.CreateLoad(type, sum)),
          total);
      builder_.CreateStore(identity(reduce.kind, type, dtype), sum);
    }
  }
}

/// Emits the chunks of a vector loop from element 0 to `end`, `step` elements per trip, chain by chain. At
/// the end, the accumulators hold the totals.
void Emitter::chained_loop(const Loop& lane_loop, std::int64_t end, std::int64_t step, std::int64_t chain,
                           const std::function<void(Value*)>& trip) {
  std::map<std::int32_t, std::vector<Value*>> totals;
  for (const std::int32_t node : lane_loop.reductions) {
    const auto& reduce = std::get<tile::Reduce>(at(node));
    if (reduce.kind != tile::ReduceKind::sum || accumulates_in_slot(reduce)) continue;
    for (Value* sum : accumulators_[node]) {
      llvm::Type* type = llvm::cast<llvm::AllocaInst>(sum)->getAllocatedType();
      totals[node].push_back(local(type, "total"));
      builder_.CreateStore(identity(reduce.kind, type, program_.info(reduce.result).dtype),
                           totals[node].back());
    }
  }
  const auto constant = [&](std::int64_t value) {
    return builder_.getInt64(static_cast<std::uint64_t>(value));
  };
  loop(constant(0), constant(end), step * chain, [&](Value* first) {
    Value* last = builder_.CreateAdd(first, constant(step * chain));
    last = builder_.CreateSelect(builder_.CreateICmpULT(last, constant(end)), last, constant(end));
    loop(first, last, step, trip);
    move_to_totals(lane_loop, totals);
  });
  for (const auto& [node, sums] : totals) {
    for (std::size_t u = 0; u < sums.size(); ++u) {
      llvm::Type* type = llvm::cast<llvm::AllocaInst>(sums[u])->getAllocatedType();
      builder_.CreateStore(builder_.CreateLoad(type, sums[u]), accumulators_[node][u]);
    }
  }
}

/// Returns the slots of carried sums over a part's rows, if the part has many rows. Such a sum is next =
/// entry + x from 0 on. Only this op reads entry, and nothing in the row reads next.
std::vector<std::int32_t> Emitter::long_sums() const {
  std::vector<std::int32_t> slots;
  std::int64_t bytes = 0;
  if (program_.kernel.rows_per_partition() <= 2 * kChain) return slots;
  for (std::size_t i = 0; i < program_.kernel.carried.size(); ++i) {
    const tile::Carried& carried = program_.kernel.carried[i];
    const std::int32_t node = program_.plan(carried.next).node;
    const auto* sum = node < 0 ? nullptr : std::get_if<tile::Pointwise>(&at(node));
    if (sum == nullptr || sum->code != ir::Opcode::add || !ir::is_float(program_.info(carried.next).dtype))
      continue;
    const auto uses = [&](tile::TileValue value) {
      std::ptrdiff_t count = 0;
      for (const tile::Node& other : program_.kernel.body)
        count += std::ranges::count(tile::operands_of(other), value);
      return count;
    };
    if (std::ranges::count(sum->operands, carried.entry) != 1 || uses(carried.entry) != 1 ||
        uses(carried.next) != 0)
      continue;
    const auto starts_at_zero = [&](const tile::Node& other) {
      const auto* constant = std::get_if<tile::Constant>(&other);
      return constant != nullptr && constant->result == carried.initial && constant->value == 0;
    };
    if (!std::ranges::any_of(program_.kernel.prologue, starts_at_zero)) continue;
    const Slot& slot = program_.slots[static_cast<std::size_t>(program_.carried_slots[i])];
    std::int64_t elements = 1;
    for (const std::int64_t extent : program_.slot_extents(slot)) elements *= extent;
    const std::int64_t own =
        elements * static_cast<std::int64_t>(std::max<std::size_t>(4, ir::dtype_bytes(slot.dtype)));
    if (bytes + own > kTotalBytes) continue;
    bytes += own;
    slots.push_back(program_.carried_slots[i]);
  }
  return slots;
}

/// Calls `each` with the address of each vector of a slot (or of its single number), and with that of its
/// total.
void Emitter::for_each_of(std::int32_t slot_index, Value* total,
                          const std::function<void(llvm::Type*, Value*, Value*)>& each) {
  const Slot& slot = program_.slots[static_cast<std::size_t>(slot_index)];
  Value* memory = slots_[static_cast<std::size_t>(slot_index)];
  llvm::Type* type = type_of(slot.dtype, !slot.lanes.empty());
  if (slot.lanes.empty()) return each(type, memory, total);
  std::int64_t elements = 1;
  for (const std::int64_t extent : program_.slot_extents(slot)) elements *= extent;
  llvm::Type* array = llvm::cast<llvm::AllocaInst>(total)->getAllocatedType();
  if (slot.registers) {
    for (std::int64_t vector = 0; vector < elements / width_; ++vector) {
      const auto at = [&](Value* base) {
        return builder_.CreateConstInBoundsGEP2_64(array, base, 0, static_cast<std::uint64_t>(vector));
      };
      each(type, at(memory), at(total));
    }
    return;
  }
  loop(builder_.getInt64(0), builder_.getInt64(static_cast<std::uint64_t>(elements)), width_,
       [&](Value* base) {
         const auto at = [&](Value* first) {
           return builder_.CreateInBoundsGEP(type->getScalarType(), first, base);
         };
         each(type, at(memory), at(total));
       });
}

/// Emits the rows from `begin` to `end`, with the given sums in chains.
void Emitter::chained_rows(Value* begin, Value* end, const std::vector<std::int32_t>& sums,
                           const std::function<void(Value*)>& row) {
  std::vector<Value*> totals;
  for (const std::int32_t index : sums) {
    const Slot& slot = program_.slots[static_cast<std::size_t>(index)];
    std::int64_t elements = 1;
    for (const std::int64_t extent : program_.slot_extents(slot)) elements *= extent;
    llvm::Type* type = type_of(slot.dtype, !slot.lanes.empty());
    if (!slot.lanes.empty()) type = llvm::ArrayType::get(type, static_cast<std::uint64_t>(elements / width_));
    totals.push_back(local(type, "total"));
    for_each_of(index, totals.back(), [&](llvm::Type* of, Value*, Value* total) {
      builder_.CreateAlignedStore(llvm::Constant::getNullValue(of), total, llvm::Align(4));
    });
  }
  loop(begin, end, kChain, [&](Value* first) {
    Value* last = builder_.CreateAdd(first, builder_.getInt64(static_cast<std::uint64_t>(kChain)));
    last = builder_.CreateSelect(builder_.CreateICmpULT(last, end), last, end);
    loop(first, last, 1, row);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      for_each_of(sums[i], totals[i], [&](llvm::Type* of, Value* sum, Value* total) {
        const llvm::Align align(4);
        builder_.CreateAlignedStore(builder_.CreateFAdd(builder_.CreateAlignedLoad(of, total, align),
                                                        builder_.CreateAlignedLoad(of, sum, align)),
                                    total, align);
        builder_.CreateAlignedStore(llvm::Constant::getNullValue(of), sum, align);
      });
    }
  });
  for (std::size_t i = 0; i < sums.size(); ++i) {
    for_each_of(sums[i], totals[i], [&](llvm::Type* of, Value* sum, Value* total) {
      const llvm::Align align(4);
      builder_.CreateAlignedStore(builder_.CreateAlignedLoad(of, total, align), sum, align);
    });
  }
}

}  // namespace rewire::codegen::cpu
