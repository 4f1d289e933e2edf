// Dot: result(i…, j) = sum over k of left(i…, k) right(k, j), j the vector axis.
//
// The result is cut into blocks of rows x vectors whose sums stay in registers while k runs: each step loads
// the vectors of right's row k and multiplies them by one element of left per row. Rows and vectors are cut
// evenly (50 rows by at most 6: 5 x 6 + 4 x 5). Where j is not contiguous in the right operand, it is first
// copied to scratch as (k, j).
#include <algorithm>

#include "codegen/llvm/emitter.h"
#include "codegen/tile/walk.h"
#include "ir/error.h"

namespace rewire::codegen::cpu {

using llvm::Value;

namespace {

/// `count` items in the fewest pieces of at most `most`, as even as possible: first `many` pieces of `size`,
/// then pieces of size - 1.
struct EvenCut {
  std::int64_t pieces, size, many;
  EvenCut(std::int64_t count, std::int64_t most)
      : pieces((count + most - 1) / most),
        size((count + pieces - 1) / pieces),
        many(count - pieces * (size - 1)) {}
};

}  // namespace

Emitter::DotView Emitter::dot_view(const DotOperand& operand, const std::vector<std::int32_t>& lanes) {
  if (operand.slot >= 0) return slot_view(operand.slot);
  return access_view(std::get<tile::Load>(at(operand.load)).access, lanes);
}

Emitter::DotView Emitter::access_view(const tile::Access& access, const std::vector<std::int32_t>& lanes) {
  DotView view;
  view.base = address(access);
  for (std::int32_t lane : lanes) view.strides[lane] = access.strides[static_cast<std::size_t>(lane)];
  return view;
}

Emitter::DotView Emitter::slot_view(std::int32_t slot_index) {
  const Slot& slot = program_.slots[static_cast<std::size_t>(slot_index)];
  DotView view{slots_[static_cast<std::size_t>(slot_index)], {}, true};
  const std::vector<std::int64_t> extents = program_.slot_extents(slot);
  std::int64_t stride = 1;
  for (std::size_t i = extents.size(); i-- > 0;) {
    view.strides[slot.lanes[i]] = stride;
    stride *= extents[i];
  }
  return view;
}

Value* Emitter::dot_element(const DotView& view, const LaneIndices& indices) {
  Value* pointer = view.base;
  for (const auto& [axis, index] : indices) {
    Value* stride = builder_.getInt64(static_cast<std::uint64_t>(view.strides.at(axis)));
    pointer = builder_.CreateInBoundsGEP(builder_.getFloatTy(), pointer, builder_.CreateMul(index, stride));
  }
  return pointer;
}

void Emitter::emit_dot(std::int32_t node) {
  const auto& dot = std::get<tile::Dot>(at(node));
  const DotPlan& plan = program_.dots[static_cast<std::size_t>(node)];
  DotView left = dot_view(plan.a, program_.info(dot.a).lanes);
  DotView right = dot_view(plan.b, program_.info(dot.b).lanes);
  if (plan.swapped) std::swap(left, right);
  DotTask task{dot.contract, program_.info(dot.result).lanes.back(), -1, {}, left, right, {}};
  if (plan.packed >= 0) task.right = pack(task, right, plan.packed);
  task.result = plan.store < 0 ? slot_view(program_.plan(dot.result).slot)
                               : access_view(std::get<tile::Store>(at(plan.store)).access,
                                             program_.info(dot.result).lanes);
  std::vector<std::int32_t> rows = program_.info(dot.result).lanes;
  rows.pop_back();
  if (!rows.empty()) {
    task.row = rows.back();
    rows.pop_back();
  }
  dot_over(task, rows, 0);
}

/// Loops over the leading row axes, then the blocks of the last one.
void Emitter::dot_over(DotTask& task, const std::vector<std::int32_t>& rows, std::size_t depth) {
  if (depth == rows.size()) return dot_blocks(task);
  Value* extent = builder_.getInt64(static_cast<std::uint64_t>(program_.extent(rows[depth])));
  loop(builder_.getInt64(0), extent, 1, [&](Value* index) {
    task.outer.emplace_back(rows[depth], index);
    dot_over(task, rows, depth + 1);
    task.outer.pop_back();
  });
}

void Emitter::dot_blocks(const DotTask& task) {
  const std::int64_t row_count = task.row < 0 ? 1 : program_.extent(task.row);
  const std::int64_t vector_count = (program_.extent(task.column) + width_ - 1) / width_;
  const EvenCut columns(vector_count, target_.avx512 ? 4 : 2);
  const EvenCut rows(row_count, most_rows(columns.size));
  LaneIndices index = task.outer;
  std::int64_t vector = 0;
  for (std::int64_t piece = 0; piece < columns.pieces; ++piece) {
    const std::int64_t vectors = piece < columns.many ? columns.size : columns.size - 1;
    const auto run = [&](std::int64_t begin, std::int64_t end, std::int64_t size) {
      if (begin == end) return;
      loop(number(begin), number(end), size, [&](Value* row) {
        if (task.row >= 0) index.emplace_back(task.row, row);
        dot_block(task, index, static_cast<int>(size), vector, static_cast<int>(vectors));
        index.resize(task.outer.size());
      });
    };
    run(0, rows.many * rows.size, rows.size);
    run(rows.many * rows.size, row_count, rows.size - 1);
    vector += vectors;
  }
}

/// Sums, vectors of right and one element of left fit the 32 (16) vector registers, pointers to the rows the
/// general ones.
std::int64_t Emitter::most_rows(std::int64_t vectors) const {
  return std::min<std::int64_t>(target_.avx512 ? 28 / vectors - 1 : 12 / vectors, 8);
}

/// Calls the block function for rows from `index` on and vectors from `first_vector` on.
void Emitter::dot_block(const DotTask& task, const LaneIndices& index, int rows, std::int64_t first_vector,
                        int vectors) {
  const std::int64_t left_over = program_.extent(task.column) - first_vector * width_;
  const int tail = left_over < std::int64_t{vectors} * width_ ? static_cast<int>(left_over % width_) : 0;
  Value* column = number(first_vector * width_);
  LaneIndices result_index = index;
  result_index.emplace_back(task.column, column);
  const auto row_stride = [&](const DotView& view) {
    return number(task.row < 0 ? 0 : view.strides.at(task.row));
  };
  builder_.CreateCall(
      dot_function(rows, vectors, task.right.padded ? 0 : tail, task.result.padded ? 0 : tail),
      {dot_element(task.left, index), row_stride(task.left), number(task.left.strides.at(task.contract)),
       dot_element(task.right, {{task.column, column}}), number(task.right.strides.at(task.contract)),
       dot_element(task.result, result_index), row_stride(task.result),
       number(program_.extent(task.contract))});
}

/// result(r, v) = sum over k < count of left(r, k) x right(k, v) for a block of rows x vectors; shared by all
/// dots of the module. Of the last vector of right only `read` elements are read, and of the result's only
/// `written` written, where these are not 0.
llvm::Function* Emitter::dot_function(int rows, int vectors, int read, int written) {
  const std::string name = fmt::format("dot_{}x{}_read_{}_write_{}", rows, vectors, read, written);
  if (llvm::Function* known = module_.getFunction(name)) return known;
  llvm::Type* pointer = builder_.getPtrTy();
  llvm::Type* i64 = builder_.getInt64Ty();
  llvm::Function* function = helper(name, {pointer, i64, i64, pointer, i64, pointer, i64, i64});
  const llvm::IRBuilderBase::InsertPointGuard guard(builder_);
  llvm::BasicBlock* entry = &function->getEntryBlock();
  llvm::BasicBlock* body = llvm::BasicBlock::Create(context_, "loop", function);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(context_, "after", function);
  builder_.SetInsertPoint(entry);
  llvm::Type* scalar = builder_.getFloatTy();
  llvm::Type* type = type_of(ir::DType::f32, true);
  std::vector<Value*> row_pointers;
  for (int r = 0; r < rows; ++r) {
    row_pointers.push_back(builder_.CreateInBoundsGEP(scalar, function->getArg(0),
                                                      builder_.CreateMul(function->getArg(1), number(r))));
  }
  builder_.CreateBr(body);
  builder_.SetInsertPoint(body);
  const auto phi = [&](llvm::Type* of, Value* first) {
    llvm::PHINode* node = builder_.CreatePHI(of, 2);
    node->addIncoming(first, entry);
    return node;
  };
  llvm::PHINode* k = phi(i64, number(0));
  llvm::PHINode* left_offset = phi(i64, number(0));
  llvm::PHINode* right = phi(pointer, function->getArg(3));
  std::vector<llvm::PHINode*> sums;
  for (int i = 0; i < rows * vectors; ++i) sums.push_back(phi(type, llvm::Constant::getNullValue(type)));
  std::vector<Value*> loaded;
  for (int v = 0; v < vectors; ++v) {
    Value* from = builder_.CreateConstInBoundsGEP1_64(scalar, right, static_cast<std::uint64_t>(v * width_));
    loaded.push_back(load_lanes(from, read > 0 && v == vectors - 1 ? read : width_));
  }
  for (int r = 0; r < rows; ++r) {
    Value* from = builder_.CreateInBoundsGEP(scalar, row_pointers[static_cast<std::size_t>(r)], left_offset);
    Value* factor = builder_.CreateVectorSplat(static_cast<unsigned>(width_),
                                               builder_.CreateAlignedLoad(scalar, from, llvm::Align(4)));
    for (int v = 0; v < vectors; ++v) {
      llvm::PHINode* sum = sums[static_cast<std::size_t>(r * vectors + v)];
      sum->addIncoming(math_.fma(factor, loaded[static_cast<std::size_t>(v)], sum), body);
    }
  }
  Value* next = builder_.CreateNUWAdd(k, number(1));
  k->addIncoming(next, body);
  left_offset->addIncoming(builder_.CreateAdd(left_offset, function->getArg(2)), body);
  right->addIncoming(builder_.CreateInBoundsGEP(scalar, right, function->getArg(4)), body);
  builder_.CreateCondBr(builder_.CreateICmpULT(next, function->getArg(7)), body, after);
  builder_.SetInsertPoint(after);
  for (int r = 0; r < rows; ++r) {
    Value* row = builder_.CreateInBoundsGEP(scalar, function->getArg(5),
                                            builder_.CreateMul(function->getArg(6), number(r)));
    for (int v = 0; v < vectors; ++v) {
      Value* to = builder_.CreateConstInBoundsGEP1_64(scalar, row, static_cast<std::uint64_t>(v * width_));
      Value* sum = sums[static_cast<std::size_t>(r * vectors + v)]->getIncomingValueForBlock(body);
      store_lanes(sum, to, written > 0 && v == vectors - 1 ? written : width_);
    }
  }
  builder_.CreateRetVoid();
  return function;
}

/// An internal function of this module, with an empty entry block; its pointers do not alias.
llvm::Function* Emitter::helper(const std::string& name, const std::vector<llvm::Type*>& parameters) {
  auto* function = llvm::Function::Create(llvm::FunctionType::get(builder_.getVoidTy(), parameters, false),
                                          llvm::Function::InternalLinkage, name, module_);
  set_attributes(*function);
  for (unsigned i = 0; i < parameters.size(); ++i) {
    if (parameters[i]->isPointerTy()) function->addParamAttr(i, llvm::Attribute::NoAlias);
  }
  llvm::BasicBlock::Create(context_, "entry", function);
  return function;
}

Value* Emitter::first_lanes(int live) {
  std::vector<llvm::Constant*> bits;
  for (int lane = 0; lane < width_; ++lane) bits.push_back(builder_.getInt1(lane < live));
  return llvm::ConstantVector::get(bits);
}

/// A vector whose first `live` lanes are read, the others 0.
Value* Emitter::load_lanes(Value* pointer, int live) {
  llvm::Type* type = type_of(ir::DType::f32, true);
  if (live == width_) return builder_.CreateAlignedLoad(type, pointer, llvm::Align(4));
  return builder_.CreateMaskedLoad(type, pointer, llvm::Align(4), first_lanes(live),
                                   llvm::Constant::getNullValue(type));
}

void Emitter::store_lanes(Value* vector, Value* pointer, int live) {
  if (live == width_) {
    builder_.CreateAlignedStore(vector, pointer, llvm::Align(4));
  } else {
    builder_.CreateMaskedStore(vector, pointer, llvm::Align(4), first_lanes(live));
  }
}

/// Copies the right operand to a slot with lanes (k, j), square blocks of W x W at a time. The slot has whole
/// blocks of rows.
Emitter::DotView Emitter::pack(const DotTask& task, const DotView& right, std::int32_t slot_index) {
  const Slot& slot = program_.slots[static_cast<std::size_t>(slot_index)];
  const std::int64_t packed_stride = program_.slot_extents(slot)[1];
  const DotView packed{
      slots_[static_cast<std::size_t>(slot_index)], {{task.contract, packed_stride}, {task.column, 1}}, true};
  Value* columns = number(program_.extent(task.column));
  Value* contract = number(program_.extent(task.contract));
  const std::int64_t k_stride = right.strides.at(task.contract);
  loop(number(0), columns, width_, [&](Value* column) {
    loop(number(0), contract, width_, [&](Value* k) {
      builder_.CreateCall(
          pack_function(k_stride == 1),
          {dot_element(right, {{task.contract, k}, {task.column, column}}), number(k_stride),
           number(right.strides.at(task.column)), builder_.CreateSub(contract, k),
           builder_.CreateSub(columns, column),
           dot_element(packed, {{task.contract, k}, {task.column, column}}), number(packed_stride)});
    });
  });
  return packed;
}

/// (source, k stride, column stride, live k, live columns, target, target stride): transposes a block,
/// reading it along k. What lies beyond the live columns becomes 0.
llvm::Function* Emitter::pack_function(bool contiguous) {
  const char* name = contiguous ? "pack" : "pack_strided";
  if (llvm::Function* known = module_.getFunction(name)) return known;
  llvm::Type* pointer = builder_.getPtrTy();
  llvm::Type* i64 = builder_.getInt64Ty();
  llvm::Function* function = helper(name, {pointer, i64, i64, i64, i64, pointer, i64});
  const llvm::IRBuilderBase::InsertPointGuard guard(builder_);
  builder_.SetInsertPoint(&function->getEntryBlock());
  llvm::Type* scalar = builder_.getFloatTy();
  llvm::Type* type = type_of(ir::DType::f32, true);
  const auto spread_number = [&](Value* x) {
    return builder_.CreateVectorSplat(static_cast<unsigned>(width_), x);
  };
  Value* lane = lane_numbers(i64);
  Value* live_lanes = builder_.CreateICmpSLT(lane, spread_number(function->getArg(3)));
  Value* offsets = builder_.CreateMul(lane, spread_number(function->getArg(1)));
  std::vector<Value*> block;
  for (int j = 0; j < width_; ++j) {
    Value* from =
        builder_.CreateGEP(scalar, function->getArg(0), builder_.CreateMul(function->getArg(2), number(j)));
    Value* live = builder_.CreateICmpSGT(function->getArg(4), number(j));
    Value* lanes =
        builder_.CreateSelect(live, live_lanes, llvm::Constant::getNullValue(live_lanes->getType()));
    Value* zero = llvm::Constant::getNullValue(type);
    block.push_back(contiguous ? builder_.CreateMaskedLoad(type, from, llvm::Align(4), lanes, zero)
                               : builder_.CreateMaskedGather(type, builder_.CreateGEP(scalar, from, offsets),
                                                             llvm::Align(4), lanes, zero));
  }
  transpose(block);
  for (int line = 0; line < width_; ++line) {
    Value* to = builder_.CreateInBoundsGEP(scalar, function->getArg(5),
                                           builder_.CreateMul(function->getArg(6), number(line)));
    builder_.CreateAlignedStore(block[static_cast<std::size_t>(line)], to,
                                llvm::Align(static_cast<std::uint64_t>(width_) * 4));
  }
  builder_.CreateRetVoid();
  return function;
}

llvm::ConstantInt* Emitter::number(std::int64_t value) {
  return builder_.getInt64(static_cast<std::uint64_t>(value));
}

/// A W x W matrix, one vector a row. In log2 W steps, step s exchanges the off-diagonal s x s blocks of each
/// 2s x 2s block.
void Emitter::transpose(std::vector<Value*>& rows) {
  for (int s = 1; s < width_; s *= 2) {
    std::vector<int> first, second;
    for (int lane = 0; lane < width_; ++lane) {
      const bool upper = (lane & s) != 0;
      first.push_back(upper ? width_ + lane - s : lane);
      second.push_back(upper ? width_ + lane : lane + s);
    }
    for (int row = 0; row < width_; ++row) {
      if ((row & s) != 0) continue;
      Value*& a = rows[static_cast<std::size_t>(row)];
      Value*& b = rows[static_cast<std::size_t>(row + s)];
      Value* old = a;
      a = builder_.CreateShuffleVector(old, b, first);
      b = builder_.CreateShuffleVector(old, b, second);
    }
  }
}

}  // namespace rewire::codegen::cpu
