// Emits one node at the current point: addresses, loads, stores, pointwise ops, reductions.
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Intrinsics.h>

#include <limits>

#include "codegen/llvm/emitter.h"
#include "codegen/tile/walk.h"
#include "ir/error.h"
#include "ir/opcodes.h"

namespace rewire::codegen::cpu {

using ir::DType;
using ir::Opcode;
using llvm::Value;

void Emitter::emit_node(std::int32_t node) {
  if (traced_ == nullptr) return emit_untraced(node);
  const auto* store = std::get_if<tile::Store>(&at(node));
  const std::int32_t value = (store == nullptr ? tile::result_of(at(node)) : store->value).id;
  builder_.SetCurrentDebugLocation(
      llvm::DILocation::get(context_, static_cast<unsigned>(value) + 1, 0, traced_));
  emit_untraced(node);
  builder_.SetCurrentDebugLocation({});
}

void Emitter::emit_untraced(std::int32_t node) {
  const tile::Node& n = at(node);
  if (const auto* store = std::get_if<tile::Store>(&n)) return emit_store(*store);
  if (std::holds_alternative<tile::Reduce>(n)) return accumulate(node);
  if (std::holds_alternative<tile::Dot>(n)) return emit_dot(node);
  if (const auto* random = std::get_if<tile::Random>(&n)) return emit_random(*random);
  const int count = in_vector() ? environment_->chunk.count : 1;
  for (int u = 0; u < count; ++u) define(tile::result_of(n), u, compute(n, u));
}

Value* Emitter::compute(const tile::Node& node, int u) {
  if (const auto* load = std::get_if<tile::Load>(&node)) return compute_load(*load, u);
  if (const auto* pointwise = std::get_if<tile::Pointwise>(&node)) return compute_pointwise(*pointwise, u);
  if (const auto* constant = std::get_if<tile::Constant>(&node)) {
    return constant_of(program_.info(constant->result).dtype, in_vector(), constant->value);
  }
  if (const auto* index = std::get_if<tile::Index>(&node)) return compute_index(*index, u);
  internal_error("tile kernel {}: a {} cannot be computed point by point", program_.kernel.name,
                 tile::node_word(node));
}

// --- addresses
// -------------------------------------------------------------------------------------------------------

Value* Emitter::address(const tile::Access& access) {
  return address_in(access, *environment_);
}

/// Returns an access's address. Each environment adds its share of the index to the address in the
/// environment around it.
Value* Emitter::address_in(const tile::Access& access, Environment& environment) {
  if (environment.kind == Environment::Kind::vector) return address_in(access, *environment.around);
  Value*& known = environment.addresses[&access];
  if (known != nullptr) return known;
  Value* base = nullptr;
  if (environment.around != nullptr) {
    base = address_in(access, *environment.around);
  } else if (access.argument >= 0) {
    base = arguments_[static_cast<std::size_t>(access.argument)];
  } else {
    base = builder_.getInt64(0);
  }
  const llvm::IRBuilderBase::InsertPointGuard guard(builder_);
  builder_.SetInsertPoint(environment.inside);
  Value* offset = own_offset(access, environment);
  return environment.addresses[&access] = offset == nullptr ? base : advance(base, offset, access);
}

/// Returns an environment's share of an access's index, in elements; nullptr: none.
Value* Emitter::own_offset(const tile::Access& access, const Environment& environment) {
  Value* sum = nullptr;
  const auto add = [&](std::int64_t stride, Value* index) {
    if (stride == 0) return;
    Value* term = builder_.CreateNSWMul(index, builder_.getInt64(static_cast<std::uint64_t>(stride)));
    sum = sum == nullptr ? term : builder_.CreateNSWAdd(sum, term);
  };
  if (environment.kind == Environment::Kind::lane) {
    add(access.strides[static_cast<std::size_t>(environment.axis)], environment.index);
    return sum;
  }
  const bool row = environment.kind == Environment::Kind::row;
  for (std::size_t axis = 0; axis < access.strides.size(); ++axis) {
    const tile::AxisUse use = program_.kernel.axes[axis].use;
    if (use == (row ? tile::AxisUse::row : tile::AxisUse::outer)) add(access.strides[axis], indices_[axis]);
  }
  if (!row) add(access.part_stride, partition_);
  if (!row) add(access.offset, builder_.getInt64(1));
  return sum;
}

Value* Emitter::advance(Value* base, Value* elements, const tile::Access& access) {
  if (access.argument < 0) return builder_.CreateAdd(base, elements);
  return builder_.CreateInBoundsGEP(memory_type(context_, argument(access.argument).dtype), base, elements);
}

/// Returns the i64 index of the first element of vector u.
Value* Emitter::element(int u) {
  return builder_.CreateNUWAdd(
      environment_->chunk.base,
      builder_.getInt64(static_cast<std::uint64_t>(u) * static_cast<std::uint64_t>(width_)));
}

/// Returns the vector <0, 1, 2 …>.
Value* Emitter::lane_numbers(llvm::Type* scalar) {
  std::vector<llvm::Constant*> numbers;
  for (int lane = 0; lane < width_; ++lane) {
    numbers.push_back(llvm::ConstantInt::get(scalar, static_cast<std::uint64_t>(lane)));
  }
  return llvm::ConstantVector::get(numbers);
}

bool Emitter::is_partial(int u) const {
  return environment_->chunk.tail > 0 && u == environment_->chunk.count - 1;
}

/// Returns a mask of the lanes of vector u that exist; of none if `predicate` is false. nullptr: all lanes.
Value* Emitter::mask(int u, Value* predicate) {
  Value* lanes = nullptr;
  if (is_partial(u)) lanes = first_lanes(environment_->chunk.tail);
  if (predicate == nullptr) return lanes;
  Value* all = spread(predicate);
  return lanes == nullptr ? all : builder_.CreateAnd(all, lanes);
}

// --- loads and stores
// ------------------------------------------------------------------------------------------------

Value* Emitter::compute_load(const tile::Load& load, int u) {
  const DType stored = argument(load.access.argument).dtype;
  const DType dtype = program_.info(load.result).dtype;
  llvm::Type* scalar = memory_type(context_, stored);
  const llvm::Align alignment(ir::dtype_bytes(stored));
  Value* pointer = address(load.access);
  Value* gathered = load.index ? gather_offset(load, u) : nullptr;
  if (gathered != nullptr && !gathered->getType()->isVectorTy()) {
    pointer = builder_.CreateInBoundsGEP(scalar, pointer, gathered);
    gathered = nullptr;
  }
  const std::int64_t stride =
      in_vector() ? load.access.strides[static_cast<std::size_t>(environment_->axis)] : 0;
  Value* value = nullptr;
  if (gathered == nullptr && stride == 0) {
    value = builder_.CreateAlignedLoad(scalar, pointer, alignment);
    if (in_vector()) value = builder_.CreateVectorSplat(static_cast<unsigned>(width_), value);
  } else if (gathered == nullptr && stride == 1) {
    value = load_vector(builder_.CreateInBoundsGEP(scalar, pointer, element(u)), scalar, u);
  } else {
    Value* offsets = strided_offsets(stride, u);
    if (gathered != nullptr) offsets = builder_.CreateAdd(offsets, gathered);
    Value* lanes = mask(u, nullptr);
    llvm::Type* type = llvm::FixedVectorType::get(scalar, static_cast<unsigned>(width_));
    value = builder_.CreateMaskedGather(type, builder_.CreateGEP(scalar, pointer, offsets), alignment, lanes,
                                        llvm::Constant::getNullValue(type));
  }
  return convert_.cast(convert_.from_memory(value, stored), stored, dtype);
}

Value* Emitter::load_vector(Value* pointer, llvm::Type* scalar, int u) {
  llvm::Type* type = llvm::FixedVectorType::get(scalar, static_cast<unsigned>(width_));
  const llvm::Align alignment(
      std::max<std::uint64_t>(scalar->getPrimitiveSizeInBits().getFixedValue() / 8, 1));
  Value* lanes = mask(u, nullptr);
  if (lanes == nullptr) return builder_.CreateAlignedLoad(type, pointer, alignment);
  return builder_.CreateMaskedLoad(type, pointer, alignment, lanes, llvm::Constant::getNullValue(type));
}

/// Returns stride x index for every lane, in i64.
Value* Emitter::strided_offsets(std::int64_t stride, int u) {
  Value* index = builder_.CreateAdd(builder_.CreateVectorSplat(static_cast<unsigned>(width_), element(u)),
                                    lane_numbers(builder_.getInt64Ty()));
  return builder_.CreateMul(
      index, llvm::ConstantInt::get(index->getType(), static_cast<std::uint64_t>(stride), true));
}

/// Returns clamp(index, 0, limit - 1) x index_stride, in i64.
Value* Emitter::gather_offset(const tile::Load& load, int u) {
  Value* index = convert_.cast(read(load.index, u), program_.info(load.index).dtype, DType::i64);
  const auto constant = [&](std::int64_t value) {
    return llvm::ConstantInt::get(index->getType(), static_cast<std::uint64_t>(value), true);
  };
  index = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, index, constant(0));
  index = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, index, constant(load.index_limit - 1));
  return builder_.CreateMul(index, constant(load.index_stride));
}

void Emitter::emit_store(const tile::Store& store) {
  Value* predicate = store.predicate ? read(store.predicate, 0) : nullptr;
  const DType dtype = program_.info(store.value).dtype;
  const DType stored = argument(store.access.argument).dtype;
  const auto as_stored = [&](Value* value) {
    const bool narrowed =
        dtype == DType::f32 && (stored == DType::bf16 || stored == DType::f16);  // to_memory rounds
    return convert_.to_memory(narrowed ? value : convert_.cast(value, dtype, stored), stored);
  };
  if (!in_vector()) {
    return store_scalar(address(store.access), as_stored(read(store.value, 0)), predicate,
                        static_cast<unsigned>(ir::dtype_bytes(stored)));
  }
  for (int u = 0; u < environment_->chunk.count; ++u) {
    store_vector(store, u, as_stored(read_spread(store.value, u)), predicate);
  }
}

void Emitter::store_scalar(Value* pointer, Value* value, Value* predicate, unsigned alignment) {
  llvm::BasicBlock* after = nullptr;
  if (predicate != nullptr) {
    llvm::BasicBlock* write = llvm::BasicBlock::Create(context_, "write", function_);
    after = llvm::BasicBlock::Create(context_, "after", function_);
    builder_.CreateCondBr(predicate, write, after);
    builder_.SetInsertPoint(write);
  }
  builder_.CreateAlignedStore(value, pointer, llvm::Align(alignment));
  if (after == nullptr) return;
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

void Emitter::store_vector(const tile::Store& store, int u, Value* value, Value* predicate) {
  const DType stored = argument(store.access.argument).dtype;
  llvm::Type* scalar = memory_type(context_, stored);
  const llvm::Align alignment(ir::dtype_bytes(stored));
  Value* pointer = address(store.access);
  Value* lanes = mask(u, predicate);
  const std::int64_t stride = store.access.strides[static_cast<std::size_t>(environment_->axis)];
  if (stride != 1) {
    builder_.CreateMaskedScatter(value, builder_.CreateGEP(scalar, pointer, strided_offsets(stride, u)),
                                 alignment, lanes);
    return;
  }
  pointer = builder_.CreateInBoundsGEP(scalar, pointer, element(u));
  if (lanes == nullptr) {
    builder_.CreateAlignedStore(value, pointer, alignment);
  } else {
    builder_.CreateMaskedStore(value, pointer, alignment, lanes);
  }
}

// --- pointwise
// -------------------------------------------------------------------------------------------------------

Value* Emitter::compute_index(const tile::Index& index, int u) {
  const DType dtype = program_.info(index.result).dtype;
  const bool lane = program_.kernel.axes[static_cast<std::size_t>(index.axis)].use == tile::AxisUse::lane;
  if (!lane) return convert_.cast(indices_[static_cast<std::size_t>(index.axis)], DType::i64, dtype);
  if (!in_vector()) return convert_.cast(index_of(index.axis), DType::i64, dtype);
  Value* first = builder_.CreateTrunc(element(u), builder_.getInt32Ty());
  Value* numbers = builder_.CreateAdd(builder_.CreateVectorSplat(static_cast<unsigned>(width_), first),
                                      lane_numbers(builder_.getInt32Ty()));
  return convert_.cast(numbers, DType::i32, dtype);
}

Value* Emitter::compute_pointwise(const tile::Pointwise& node, int u) {
  std::vector<Value*> x;
  for (tile::TileValue operand : node.operands) x.push_back(read_spread(operand, u));
  const DType dtype = program_.info(node.operands.back()).dtype;
  switch (node.code) {
    case Opcode::cast:
      return convert_.cast(x[0], dtype, program_.info(node.result).dtype);
    case Opcode::stop_gradient:
      return x[0];
    case Opcode::select:
      return builder_.CreateSelect(x[0], x[1], x[2]);
    case Opcode::compare:
      return compare(node.direction, x[0], x[1], dtype);
    case Opcode::isfinite:
      return math_.is_finite(x[0]);
    case Opcode::logical_not:
      return builder_.CreateNot(x[0]);
    case Opcode::logical_and:
      return builder_.CreateAnd(x[0], x[1]);
    case Opcode::logical_or:
      return builder_.CreateOr(x[0], x[1]);
    default:
      return ir::is_float(dtype) ? convert_.round(float_op(node, x), dtype) : integer_op(node, x, dtype);
  }
}

Value* Emitter::float_op(const tile::Pointwise& node, const std::vector<Value*>& x) {
  switch (node.code) {
    case Opcode::neg:
      return builder_.CreateFNeg(x[0]);
    case Opcode::abs:
      return builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x[0]);
    case Opcode::exp:
      return math_.exp(x[0]);
    case Opcode::log:
      return math_.log(x[0]);
    case Opcode::sqrt:
      return math_.sqrt(x[0]);
    case Opcode::rsqrt:
      return math_.rsqrt(x[0]);
    case Opcode::sin:
      return math_.sin(x[0]);
    case Opcode::cos:
      return math_.cos(x[0]);
    case Opcode::tanh:
      return math_.tanh(x[0]);
    case Opcode::erf:
      return math_.erf(x[0]);
    case Opcode::sigmoid:
      return math_.sigmoid(x[0]);
    case Opcode::floor:
      return builder_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x[0]);
    case Opcode::add:
      return builder_.CreateFAdd(x[0], x[1]);
    case Opcode::sub:
      return builder_.CreateFSub(x[0], x[1]);
    case Opcode::mul:
      return builder_.CreateFMul(x[0], x[1]);
    case Opcode::div:
      return builder_.CreateFDiv(x[0], x[1]);
    case Opcode::maximum:
      return math_.maximum(x[0], x[1]);
    case Opcode::minimum:
      return math_.minimum(x[0], x[1]);
    case Opcode::pow:
      return math_.pow(x[0], x[1]);
    default:
      internal_error("tile kernel {}: no code for {} of floats", program_.kernel.name,
                     ir::opcode_name(node.code));
  }
}

Value* Emitter::integer_op(const tile::Pointwise& node, const std::vector<Value*>& x, DType dtype) {
  const bool is_signed = dtype != DType::u8;
  switch (node.code) {
    case Opcode::neg:
      return builder_.CreateNeg(x[0]);
    case Opcode::abs:
      return is_signed ? builder_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x[0], builder_.getFalse())
                       : x[0];
    case Opcode::add:
      return builder_.CreateAdd(x[0], x[1]);
    case Opcode::sub:
      return builder_.CreateSub(x[0], x[1]);
    case Opcode::mul:
      return builder_.CreateMul(x[0], x[1]);
    case Opcode::maximum:
      return builder_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x[0],
                                            x[1]);
    case Opcode::minimum:
      return builder_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x[0],
                                            x[1]);
    default:
      internal_error("tile kernel {}: no code for {} of integers", program_.kernel.name,
                     ir::opcode_name(node.code));
  }
}

Value* Emitter::compare(const std::string& direction, Value* a, Value* b, DType dtype) {
  using llvm::CmpInst;
  struct Row {
    const char* direction;
    CmpInst::Predicate floats, signed_integers, unsigned_integers;
  };
  static constexpr Row kRows[] = {
      {"lt", CmpInst::FCMP_OLT, CmpInst::ICMP_SLT, CmpInst::ICMP_ULT},
      {"le", CmpInst::FCMP_OLE, CmpInst::ICMP_SLE, CmpInst::ICMP_ULE},
      {"gt", CmpInst::FCMP_OGT, CmpInst::ICMP_SGT, CmpInst::ICMP_UGT},
      {"ge", CmpInst::FCMP_OGE, CmpInst::ICMP_SGE, CmpInst::ICMP_UGE},
      {"eq", CmpInst::FCMP_OEQ, CmpInst::ICMP_EQ, CmpInst::ICMP_EQ},
      {"ne", CmpInst::FCMP_UNE, CmpInst::ICMP_NE, CmpInst::ICMP_NE},
  };
  for (const Row& row : kRows) {
    if (direction != row.direction) continue;
    if (ir::is_float(dtype)) return builder_.CreateFCmp(row.floats, a, b);
    const bool is_unsigned = dtype == DType::u8 || dtype == DType::i1;
    return builder_.CreateICmp(is_unsigned ? row.unsigned_integers : row.signed_integers, a, b);
  }
  internal_error("tile kernel {}: compare has direction '{}'", program_.kernel.name, direction);
}

// --- reductions
// ------------------------------------------------------------------------------------------------------

void Emitter::accumulate(std::int32_t node) {
  const auto& reduce = std::get<tile::Reduce>(at(node));
  const DType dtype = program_.info(reduce.result).dtype;
  const int count = in_vector() ? environment_->chunk.count : 1;
  for (int u = 0; u < count; ++u) {
    Value* x = read(reduce.operand, u);
    if (accumulates_in_slot(reduce)) {
      const std::int32_t slot = program_.plan(reduce.result).slot;
      store_slot(slot, u, combine(reduce.kind, dtype, load_slot(slot, u), x));
      continue;
    }
    if (in_vector() && is_partial(u)) {
      x = builder_.CreateSelect(mask(u, nullptr), x, identity(reduce.kind, x->getType(), dtype));
    }
    Value* sum = accumulators_.at(node)[static_cast<std::size_t>(u)];
    builder_.CreateStore(combine(reduce.kind, dtype, builder_.CreateLoad(x->getType(), sum), x), sum);
  }
}

Value* Emitter::combine(tile::ReduceKind kind, DType dtype, Value* a, Value* b) {
  const bool is_float = ir::is_float(dtype);
  if (kind == tile::ReduceKind::sum) return is_float ? builder_.CreateFAdd(a, b) : builder_.CreateAdd(a, b);
  if (is_float) return math_.maximum(a, b);
  return builder_.CreateBinaryIntrinsic(dtype == DType::u8 ? llvm::Intrinsic::umax : llvm::Intrinsic::smax, a,
                                        b);
}

Value* Emitter::identity(tile::ReduceKind kind, llvm::Type* type, DType dtype) {
  if (kind == tile::ReduceKind::sum || dtype == DType::u8) return llvm::Constant::getNullValue(type);
  if (ir::is_float(dtype)) return llvm::ConstantFP::get(type, -std::numeric_limits<double>::infinity());
  return llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(type->getScalarSizeInBits()));
}

/// Reduces the lanes of one vector, by combining its halves until one lane is left.
Value* Emitter::across(tile::ReduceKind kind, DType dtype, Value* vector) {
  for (int half = width_ / 2; half >= 1; half /= 2) {
    std::vector<int> low, high;
    for (int lane = 0; lane < half; ++lane) {
      low.push_back(lane);
      high.push_back(lane + half);
    }
    vector = combine(kind, dtype, builder_.CreateShuffleVector(vector, low),
                     builder_.CreateShuffleVector(vector, high));
  }
  return builder_.CreateExtractElement(vector, std::uint64_t{0});
}

}  // namespace rewire::codegen::cpu
