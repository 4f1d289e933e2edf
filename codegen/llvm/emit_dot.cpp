// Dot: result(i…, j) = sum over k of left(i…, k) right(k, j), j the vector axis.
//
// The result is cut into blocks of rows x vectors (register_block.h), as evenly as possible: 50 rows by at
// most 6 are 5 x 6 + 4 x 5. If j is not contiguous in the right operand, the operand is first copied to
// scratch as (k, j).
#include <algorithm>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/register_block.h"
#include "codegen/tile/walk.h"
#include "ir/error.h"

namespace rewire::codegen::cpu {

using llvm::Value;

namespace {

/// Cuts `count` items into pieces as even as possible: first `many` of `size`, then the rest of size - 1.
struct EvenCut {
  std::int64_t pieces, size, many;
  EvenCut(std::int64_t count, std::int64_t of)
      : pieces(of), size((count + pieces - 1) / pieces), many(count - pieces * (size - 1)) {}
  /// Cuts into the fewest pieces of at most `most` items.
  static EvenCut of_most(std::int64_t count, std::int64_t most) { return {count, (count + most - 1) / most}; }
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

/// Plans prefetches. An instance with dots computes mostly in registers, but begins with data that no cache
/// holds. So each dot prefetches its share of the matrices that the task's next instance loads: of each
/// matrix, as many rows as the dot itself has. The last instance prefetches its own matrices once more.
void Emitter::look_ahead(Value* instance) {
  const auto is_dot = [](const tile::Node& node) { return std::holds_alternative<tile::Dot>(node); };
  const auto& prologue = program_.kernel.prologue;
  ahead_.assign(static_cast<std::size_t>(std::ranges::count_if(prologue, is_dot)), {});
  dots_ = 0;
  if (ahead_.empty()) return;
  const std::vector<Value*> here = indices_;
  Value* last =
      builder_.CreateSub(function_->getArg(static_cast<unsigned>(arguments_.size()) + 1), number(1));
  Value* next = builder_.CreateSelect(builder_.CreateICmpSLT(instance, last),
                                      builder_.CreateAdd(instance, number(1)), last);
  decompose(builder_.CreateUDiv(next, number(program_.kernel.partitions)), tile::AxisUse::outer);
  std::vector<RowsAhead> matrices;
  for (const tile::Node& node : prologue) {
    const auto* load = std::get_if<tile::Load>(&node);
    if (load == nullptr || load->index.id >= 0) continue;
    const std::vector<std::int32_t>& lanes = program_.info(load->result).lanes;
    const auto stride = [&](std::int32_t axis) {
      return load->access.strides[static_cast<std::size_t>(axis)];
    };
    if (lanes.size() != 2 || stride(lanes[1]) != 1) continue;
    const auto bytes = static_cast<std::int64_t>(ir::dtype_bytes(argument(load->access.argument).dtype));
    Value* base = arguments_[static_cast<std::size_t>(load->access.argument)];
    if (Value* offset = own_offset(load->access, *environment_)) base = advance(base, offset, load->access);
    matrices.push_back(
        {base, program_.extent(lanes[0]), stride(lanes[0]) * bytes, program_.extent(lanes[1]) * bytes});
  }
  for (std::size_t i = 0; i < matrices.size(); ++i)
    ahead_[i * ahead_.size() / matrices.size()].push_back(matrices[i]);
  indices_ = here;
}

/// Prefetches `rows` rows from `row` on. The code is a function of its own, which LLVM compiles quickly.
void Emitter::fetch_ahead(const RowsAhead& ahead, Value* row, std::int64_t rows) {
  rows = std::min(rows, ahead.rows);
  const std::string name = fmt::format("fetch_{}x{}_{}", rows, ahead.length, ahead.stride);
  llvm::Function* function = module_.getFunction(name);
  if (function == nullptr) {
    function = helper(name, {builder_.getPtrTy()});
    const llvm::IRBuilderBase::InsertPointGuard guard(builder_);
    builder_.SetInsertPoint(&function->getEntryBlock());
    for (std::int64_t r = 0; r < rows; ++r) {
      Value* begin = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), function->getArg(0),
                                                 static_cast<std::uint64_t>(r * ahead.stride));
      fetch(builder_, begin, ahead.length, Fetch::to_read_later);
    }
    builder_.CreateRetVoid();
  }
  Value* begin =
      builder_.CreateGEP(builder_.getInt8Ty(), ahead.base, builder_.CreateMul(row, number(ahead.stride)));
  builder_.CreateCall(function, {begin})->setIsNoInline();
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
  // A block of a single vector would use only ten of AVX2's 16 registers. So 7 vectors are cut into 3 + 2 +
  // 2.
  const bool threes = width_ == 8 && vector_count > 1;
  const EvenCut columns = threes ? EvenCut(vector_count, vector_count / 2)
                                 : EvenCut::of_most(vector_count, target_.avx512 ? 4 : 2);
  LaneIndices index = task.outer;
  const std::vector<RowsAhead> fetched = dots_ < ahead_.size() ? ahead_[dots_] : std::vector<RowsAhead>{};
  ++dots_;
  std::int64_t vector = 0;
  for (std::int64_t piece = 0; piece < columns.pieces; ++piece) {
    const std::int64_t vectors = piece < columns.many ? columns.size : columns.size - 1;
    const EvenCut rows = EvenCut::of_most(row_count, most_rows(vectors));
    const auto run = [&](std::int64_t begin, std::int64_t end, std::int64_t size) {
      if (begin == end) return;
      loop(number(begin), number(end), size, [&](Value* row) {
        if (task.row >= 0) index.emplace_back(task.row, row);
        if (piece == 0) {
          for (const RowsAhead& ahead : fetched) fetch_ahead(ahead, row, size);
        }
        dot_block(task, index, static_cast<int>(size), vector, static_cast<int>(vectors));
        index.resize(task.outer.size());
      });
    };
    run(0, rows.many * rows.size, rows.size);
    run(rows.many * rows.size, row_count, rows.size - 1);
    vector += vectors;
  }
}

/// Returns the most rows for which sums, vectors of right and one element of left fit the 32 (16) vector
/// registers.
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
  const auto row_stride = [&](const DotView& view) { return task.row < 0 ? 0 : view.strides.at(task.row); };
  const DotBlock block{rows,
                       vectors,
                       program_.extent(task.contract),
                       row_stride(task.left),
                       task.left.strides.at(task.contract),
                       task.right.strides.at(task.contract),
                       row_stride(task.result),
                       task.right.padded ? 0 : tail,
                       task.result.padded ? 0 : tail};
  builder_.CreateCall(dot_function(block),
                      {dot_element(task.left, index), dot_element(task.right, {{task.column, column}}),
                       dot_element(task.result, result_index)});
}

/// Returns the function (left, right, result): result(r, v) = sum over k of left(r, k) x right(k, v). All
/// such blocks of the module share it. Strides are constants in its code. If they were arguments, LLVM would
/// compute each row's address from that of the row before.
llvm::Function* Emitter::dot_function(const DotBlock& block) {
  const std::string name =
      fmt::format("dot_{}x{}_of_{}_left_{}_{}_right_{}_result_{}_read_{}_write_{}", block.rows, block.vectors,
                  block.count, block.left_row, block.left_step, block.right_step, block.result_row,
                  block.read, block.written);
  if (llvm::Function* known = module_.getFunction(name)) return known;
  llvm::Type* pointer = builder_.getPtrTy();
  llvm::Function* function = helper(name, {pointer, pointer, pointer});
  const llvm::IRBuilderBase::InsertPointGuard guard(builder_);
  builder_.SetInsertPoint(&function->getEntryBlock());
  const auto element = [&](Value* base, std::int64_t index) {
    return builder_.CreateConstInBoundsGEP1_64(builder_.getFloatTy(), base,
                                               static_cast<std::uint64_t>(index));
  };
  const auto vector = [&](Value* row, int v) { return element(row, std::int64_t{v} * width_); };
  const auto live = [&](int of_last, int v) {
    return of_last > 0 && v == block.vectors - 1 ? of_last : width_;
  };
  RegisterBlock registers{block.rows,
                          block.vectors,
                          llvm::cast<llvm::FixedVectorType>(type_of(ir::DType::f32, true)),
                          {},
                          number(block.left_step),
                          function->getArg(1),
                          number(block.right_step),
                          number(block.count),
                          [&](Value* row, int v) { return load_lanes(vector(row, v), live(block.read, v)); }};
  for (int r = 0; r < block.rows; ++r)
    registers.left.push_back(element(function->getArg(0), r * block.left_row));
  const auto result = [&](int row) { return element(function->getArg(2), row * block.result_row); };
  for (int r = 0; r < block.rows; ++r)
    fetch(builder_, result(r), std::int64_t{block.vectors} * width_ * 4, Fetch::to_write);
  const std::vector<Value*> sums = multiply(builder_, math_, registers);
  for (int r = 0; r < block.rows; ++r) {
    for (int v = 0; v < block.vectors; ++v)
      store_lanes(sums[static_cast<std::size_t>(r * block.vectors + v)], vector(result(r), v),
                  live(block.written, v));
  }
  builder_.CreateRetVoid();
  return function;
}

/// Adds an internal function to this module, with an empty entry block. Its pointers do not alias.
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

/// Loads a vector: its first `live` lanes are read, the others are 0.
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

/// Copies the right operand to a slot with lanes (k, j), in square blocks of W x W. The slot has whole
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

/// Returns the function (source, k stride, column stride, live k, live columns, target, target stride). It
/// transposes a block, reading it along k. Elements beyond the live columns become 0.
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

/// Transposes a W x W matrix, one vector per row, in log2 W steps. Step s exchanges the off-diagonal s x s
/// blocks of each 2s x 2s block.
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
