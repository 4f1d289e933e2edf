// Loops over lane axes, and how values pass between them.
#include <algorithm>

#include "codegen/llvm/emitter.h"
#include "codegen/tile/walk.h"
#include "ir/error.h"

namespace rewire::codegen::cpu {

using llvm::Value;
using tile::TileValue;

void Emitter::emit_block(const Block& block) {
  for (const Step& step : block) emit_step(step);
}

void Emitter::emit_step(const Step& step) {
  if (step.loop) {
    emit_loop(*step.loop);
  } else {
    emit_node(step.node);
  }
}

void Emitter::emit_loop(const Loop& lane_loop) {
  if (lane_loop.vector) return emit_vector_loop(lane_loop);
  open_reductions(lane_loop, 1);
  Environment environment;
  environment.kind = Environment::Kind::lane;
  environment.around = environment_;
  environment.axis = lane_loop.axis;
  environment.before = mark();
  Value* extent = builder_.getInt64(static_cast<std::uint64_t>(program_.extent(lane_loop.axis)));
  loop(builder_.getInt64(0), extent, 1, [&](Value* index) {
    environment.index = index;
    environment.inside = mark();
    environment_ = &environment;
    emit_block(lane_loop.body);
    environment_ = environment.around;
  });
  close_reductions(lane_loop, 1);
}

void Emitter::emit_vector_loop(const Loop& lane_loop) {
  const std::int64_t extent = program_.extent(lane_loop.axis);
  const std::int64_t vectors = (extent + width_ - 1) / width_;
  const int unroll = static_cast<int>(std::min<std::int64_t>(lane_loop.unroll, vectors));
  open_reductions(lane_loop, unroll);
  llvm::Instruction* before = mark();
  std::int64_t trips = extent / width_ / unroll;
  if (trips <= 1 || program_.unrolled[static_cast<std::size_t>(lane_loop.axis)]) trips = 0;
  std::int64_t vector = trips * unroll;
  const auto trip = [&](Value* base) { emit_chunk(lane_loop, {base, unroll, 0}, before); };
  const std::int64_t step = std::int64_t{unroll} * width_;
  if (const std::int64_t chain = chain_of(lane_loop, trips); chain > 0) {
    chained_loop(lane_loop, vector * width_, step, chain, trip);
  } else if (trips > 0) {
    loop(builder_.getInt64(0), builder_.getInt64(static_cast<std::uint64_t>(vector * width_)), step, trip);
  }
  while (vector < vectors) {
    const int count = static_cast<int>(std::min<std::int64_t>(unroll, vectors - vector));
    const int tail = vector + count == vectors ? static_cast<int>(extent % width_) : 0;
    emit_chunk(lane_loop, {builder_.getInt64(static_cast<std::uint64_t>(vector * width_)), count, tail},
               before);
    vector += count;
  }
  close_reductions(lane_loop, unroll);
}

void Emitter::emit_chunk(const Loop& lane_loop, const Chunk& chunk, llvm::Instruction* before) {
  Environment environment;
  environment.kind = Environment::Kind::vector;
  environment.around = environment_;
  environment.axis = lane_loop.axis;
  environment.chunk = chunk;
  environment.before = before;
  environment.inside = mark();
  environment_ = &environment;
  emit_block(lane_loop.body);
  environment_ = environment.around;
}

void Emitter::open_reductions(const Loop& lane_loop, int accumulators) {
  for (std::int32_t node : lane_loop.reductions) {
    const auto& reduce = std::get<tile::Reduce>(at(node));
    const tile::ValueInfo& info = program_.info(reduce.result);
    if (accumulates_in_slot(reduce)) {
      const Slot& slot = program_.slots[static_cast<std::size_t>(program_.plan(reduce.result).slot)];
      fill_slot(slot, slots_[static_cast<std::size_t>(program_.plan(reduce.result).slot)], reduce.axes[0],
                identity(reduce.kind, type_of(info.dtype, true), info.dtype));
      continue;
    }
    llvm::Type* type = type_of(info.dtype, lane_loop.vector);
    std::vector<Value*>& sums = accumulators_[node];
    sums.clear();
    for (int u = 0; u < accumulators; ++u) {
      sums.push_back(local(type, "sum"));
      builder_.CreateStore(identity(reduce.kind, type, info.dtype), sums.back());
    }
  }
}

/// Combines the accumulators in a fixed tree, then the lanes of the vector.
void Emitter::close_reductions(const Loop& lane_loop, int accumulators) {
  for (std::int32_t node : lane_loop.reductions) {
    const auto& reduce = std::get<tile::Reduce>(at(node));
    if (accumulates_in_slot(reduce)) continue;
    const ir::DType dtype = program_.info(reduce.result).dtype;
    llvm::Type* type = type_of(dtype, lane_loop.vector);
    std::vector<Value*> sums;
    for (int u = 0; u < accumulators; ++u) {
      sums.push_back(builder_.CreateLoad(type, accumulators_[node][static_cast<std::size_t>(u)]));
    }
    while (sums.size() > 1) {
      const std::size_t half = (sums.size() + 1) / 2;
      for (std::size_t u = 0; u + half < sums.size(); ++u) {
        sums[u] = combine(reduce.kind, dtype, sums[u], sums[u + half]);
      }
      sums.resize(half);
    }
    Value* result = lane_loop.vector ? across(reduce.kind, dtype, sums[0]) : sums[0];
    define(reduce.result, 0, result);
  }
}

/// Returns whether the result has lanes inside of the reduced one. Its sums are then kept in its slot.
bool Emitter::accumulates_in_slot(const tile::Reduce& reduce) const {
  const std::vector<std::int32_t>& lanes = program_.info(reduce.result).lanes;
  return !lanes.empty() && lanes.back() > reduce.axes[0];
}

/// Fills the part of a slot at the current indices of the axes before `axis`. The rest keeps what other
/// trips of these loops left there, which may still be read.
void Emitter::fill_slot(const Slot& slot, Value* memory, std::int32_t axis, Value* value) {
  if (slot.dtype == ir::DType::i1) value = convert_.to_memory(value, ir::DType::i1);
  const std::vector<std::int64_t> extents = program_.slot_extents(slot);
  std::int64_t elements = 1;
  Value* part = builder_.getInt64(0);
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (slot.lanes[i] > axis) {
      elements *= extents[i];
      continue;
    }
    part = builder_.CreateMul(part, builder_.getInt64(static_cast<std::uint64_t>(extents[i])));
    part = builder_.CreateAdd(part, index_of(slot.lanes[i]));
  }
  if (slot.registers) {
    llvm::Type* array = llvm::cast<llvm::AllocaInst>(memory)->getAllocatedType();
    for (std::int64_t vector = 0; vector < elements / width_; ++vector) {
      builder_.CreateStore(
          value, builder_.CreateConstInBoundsGEP2_64(array, memory, 0, static_cast<std::uint64_t>(vector)));
    }
    return;
  }
  Value* first = builder_.CreateMul(part, builder_.getInt64(static_cast<std::uint64_t>(elements)));
  loop(builder_.getInt64(0), builder_.getInt64(static_cast<std::uint64_t>(elements)), width_,
       [&](Value* base) {
         Value* pointer = builder_.CreateInBoundsGEP(value->getType()->getScalarType(), memory,
                                                     builder_.CreateAdd(first, base));
         builder_.CreateAlignedStore(value, pointer, llvm::Align(16));
       });
}

void Emitter::copy_slot(const SlotCopy& copy) {
  const Slot& slot = program_.slots[static_cast<std::size_t>(copy.from)];
  llvm::Type* type = type_of(slot.dtype == ir::DType::i1 ? ir::DType::u8 : slot.dtype, true);
  std::int64_t elements = 1;
  for (std::int64_t extent : program_.slot_extents(slot)) elements *= extent;
  loop(builder_.getInt64(0), builder_.getInt64(static_cast<std::uint64_t>(elements)), width_,
       [&](Value* base) {
         const auto pointer = [&](std::int32_t index) {
           return builder_.CreateInBoundsGEP(type->getScalarType(), slots_[static_cast<std::size_t>(index)],
                                             base);
         };
         builder_.CreateAlignedStore(builder_.CreateAlignedLoad(type, pointer(copy.from), llvm::Align(16)),
                                     pointer(copy.to), llvm::Align(16));
       });
}

/// Returns the address of the current element, or of vector u of the current chunk.
Value* Emitter::slot_pointer(std::int32_t slot_index, int u) {
  const Slot& slot = program_.slots[static_cast<std::size_t>(slot_index)];
  Value* memory = slots_[static_cast<std::size_t>(slot_index)];
  if (slot.lanes.empty()) return memory;
  if (slot.registers) {
    const auto base = llvm::cast<llvm::ConstantInt>(environment_->chunk.base)->getZExtValue();
    return builder_.CreateConstInBoundsGEP2_64(
        llvm::cast<llvm::AllocaInst>(memory)->getAllocatedType(), memory, 0,
        base / static_cast<std::uint64_t>(width_) + static_cast<std::uint64_t>(u));
  }
  const std::vector<std::int64_t> extents = program_.slot_extents(slot);
  Value* linear = builder_.getInt64(0);
  for (std::size_t i = 0; i < extents.size(); ++i) {
    linear = builder_.CreateMul(linear, builder_.getInt64(static_cast<std::uint64_t>(extents[i])));
    const bool vector = in_vector() && slot.lanes[i] == environment_->axis;
    linear = builder_.CreateAdd(linear, vector ? element(u) : index_of(slot.lanes[i]));
  }
  llvm::Type* type = type_of(slot.dtype == ir::DType::i1 ? ir::DType::u8 : slot.dtype, false);
  return builder_.CreateInBoundsGEP(type, memory, linear);
}

/// Returns the memory type of the current element or vector of a slot.
llvm::Type* Emitter::slot_type(const Slot& slot) const {
  const bool vector = in_vector() && tile::contains_lane(slot.lanes, environment_->axis);
  return type_of(slot.dtype == ir::DType::i1 ? ir::DType::u8 : slot.dtype, vector);
}

Value* Emitter::load_slot(std::int32_t slot_index, int u) {
  const Slot& slot = program_.slots[static_cast<std::size_t>(slot_index)];
  llvm::Type* type = slot_type(slot);
  const unsigned bytes = type->getPrimitiveSizeInBits().getFixedValue() / 8;
  Value* value =
      builder_.CreateAlignedLoad(type, slot_pointer(slot_index, u), llvm::Align(std::min(bytes, 64U)));
  return slot.dtype == ir::DType::i1 ? convert_.from_memory(value, ir::DType::i1) : value;
}

void Emitter::store_slot(std::int32_t slot_index, int u, Value* value) {
  const Slot& slot = program_.slots[static_cast<std::size_t>(slot_index)];
  if (slot.dtype == ir::DType::i1) value = convert_.to_memory(value, ir::DType::i1);
  const unsigned bytes = value->getType()->getPrimitiveSizeInBits().getFixedValue() / 8;
  builder_.CreateAlignedStore(value, slot_pointer(slot_index, u), llvm::Align(std::min(bytes, 64U)));
}

Value* Emitter::find(TileValue value, int u) const {
  for (const Environment* environment = environment_; environment != nullptr;
       environment = environment->around) {
    if (environment->kind == Environment::Kind::vector) {
      const auto found = environment->vectors.find(value.id);
      if (found != environment->vectors.end() && found->second[static_cast<std::size_t>(u)] != nullptr) {
        return found->second[static_cast<std::size_t>(u)];
      }
    } else if (const auto found = environment->scalars.find(value.id); found != environment->scalars.end()) {
      return found->second;
    }
  }
  return nullptr;
}

void Emitter::remember(TileValue value, int u, Value* result) {
  if (!in_vector()) {
    environment_->scalars[value.id] = result;
    return;
  }
  std::vector<Value*>& vectors = environment_->vectors[value.id];
  vectors.resize(static_cast<std::size_t>(environment_->chunk.count));
  vectors[static_cast<std::size_t>(u)] = result;
}

Value* Emitter::read(TileValue value, int u) {
  if (Value* known = find(value, u)) return known;
  const bool loops = environment_->axis >= 0;
  if (loops && !tile::contains_lane(program_.info(value).lanes, environment_->axis)) {
    const llvm::IRBuilderBase::InsertPointGuard guard(builder_);
    Environment* inner = environment_;
    builder_.SetInsertPoint(inner->before);
    environment_ = inner->around;
    Value* result = read(value, 0);
    environment_ = inner;
    return result;
  }
  const ValuePlan& plan = program_.plan(value);
  Value* result = nullptr;
  if (loops && plan.home == Home::slot) {
    result = load_slot(plan.slot, u);
  } else if (loops && plan.home == Home::recompute) {
    result = compute(at(plan.node), u);
  } else {
    internal_error("tile kernel {}: value %{} is read out of scope", program_.kernel.name, value.id);
  }
  remember(value, u, result);
  return result;
}

Value* Emitter::read_spread(TileValue value, int u) {
  Value* result = read(value, u);
  return in_vector() && !result->getType()->isVectorTy() ? spread(result) : result;
}

/// Returns a vector with one value in all lanes. It is made before the loop, since the value comes from
/// outside.
Value* Emitter::spread(Value* scalar) {
  Value*& known = environment_->splats[scalar];
  if (known != nullptr) return known;
  const llvm::IRBuilderBase::InsertPointGuard guard(builder_);
  builder_.SetInsertPoint(environment_->before);
  known = builder_.CreateVectorSplat(static_cast<unsigned>(width_), scalar);
  return known;
}

void Emitter::define(TileValue value, int u, Value* result) {
  remember(value, u, result);
  for (std::int32_t slot : program_.plan(value).sinks) store_slot(slot, u, result);
}

Value* Emitter::index_of(std::int32_t axis) const {
  for (const Environment* environment = environment_; environment != nullptr;
       environment = environment->around) {
    if (environment->kind == Environment::Kind::lane && environment->axis == axis) return environment->index;
  }
  internal_error("tile kernel {}: no loop over {} here", program_.kernel.name,
                 program_.kernel.axes[static_cast<std::size_t>(axis)].name);
}

}  // namespace rewire::codegen::cpu
