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

constexpr int kContractUnroll = 4;

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
  DotView view;
  const auto& load = std::get<tile::Load>(at(operand.load));
  view.base = address(load.access);
  for (std::int32_t lane : lanes) view.strides[lane] = load.access.strides[static_cast<std::size_t>(lane)];
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
  task.result = slot_view(program_.plan(dot.result).slot);
  std::vector<std::int32_t> rows = program_.info(dot.result).lanes;
  rows.pop_back();
  if (!rows.empty()) {
    task.row = rows.back();
    rows.pop_back();
  }
  dot_over(task, rows, 0);
  for (std::int32_t sink : program_.plan(dot.result).sinks) {
    if (sink != program_.plan(dot.result).slot) copy_slot({program_.plan(dot.result).slot, sink});
  }
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
  const bool many_registers = target_.avx512;
  const EvenCut columns(vector_count, many_registers ? 4 : 2);
  // sums + vectors of right + one element of left fit the 32 (16) registers
  const std::int64_t most_rows =
      many_registers ? std::min<std::int64_t>(28 / columns.size - 1, 14) : 12 / columns.size;
  const EvenCut rows(row_count, most_rows);
  const auto row_blocks = [&](std::int64_t first_vector, int vectors) {
    const auto run = [&](std::int64_t begin, std::int64_t end, std::int64_t size) {
      if (begin == end) return;
      loop(builder_.getInt64(static_cast<std::uint64_t>(begin)),
           builder_.getInt64(static_cast<std::uint64_t>(end)), size,
           [&](Value* row) { dot_block(task, row, static_cast<int>(size), first_vector, vectors); });
    };
    run(0, rows.many * rows.size, rows.size);
    run(rows.many * rows.size, row_count, rows.size - 1);
  };
  std::int64_t vector = 0;
  for (std::int64_t piece = 0; piece < columns.pieces; ++piece) {
    const std::int64_t size = piece < columns.many ? columns.size : columns.size - 1;
    row_blocks(vector, static_cast<int>(size));
    vector += size;
  }
}

void Emitter::dot_block(const DotTask& task, Value* row, int rows, std::int64_t first_vector, int vectors) {
  llvm::Type* type = type_of(ir::DType::f32, true);
  std::vector<Value*> sums;
  for (int i = 0; i < rows * vectors; ++i) {
    sums.push_back(local(type, "sum"));
    builder_.CreateStore(llvm::Constant::getNullValue(type), sums.back());
  }
  Value* column = builder_.getInt64(static_cast<std::uint64_t>(first_vector * width_));
  LaneIndices left_index = task.outer;
  if (task.row >= 0) left_index.emplace_back(task.row, row);
  Value* left = dot_element(task.left, left_index);
  Value* right = dot_element(task.right, {{task.column, column}});
  const std::int64_t contract = program_.extent(task.contract);
  const std::int64_t whole = contract / kContractUnroll * kContractUnroll;
  if (whole > 0) {
    loop(builder_.getInt64(0), builder_.getInt64(static_cast<std::uint64_t>(whole)), kContractUnroll,
         [&](Value* k) {
           for (int step = 0; step < kContractUnroll; ++step) {
             Value* at_k = builder_.CreateAdd(k, builder_.getInt64(static_cast<std::uint64_t>(step)));
             dot_step(task, left, right, at_k, first_vector, rows, vectors, sums);
           }
         });
  }
  for (std::int64_t k = whole; k < contract; ++k) {
    dot_step(task, left, right, builder_.getInt64(static_cast<std::uint64_t>(k)), first_vector, rows, vectors,
             sums);
  }
  LaneIndices result_index = left_index;
  result_index.emplace_back(task.column, column);
  Value* result = dot_element(task.result, result_index);
  const std::int64_t row_stride = task.row < 0 ? 0 : task.result.strides.at(task.row);
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      Value* sum = builder_.CreateLoad(type, sums[static_cast<std::size_t>(r * vectors + v)]);
      const std::int64_t offset = r * row_stride + std::int64_t{v} * width_;
      builder_.CreateAlignedStore(sum,
                                  builder_.CreateConstInBoundsGEP1_64(builder_.getFloatTy(), result,
                                                                      static_cast<std::uint64_t>(offset)),
                                  llvm::Align(static_cast<std::uint64_t>(width_) * 4));
    }
  }
}

/// sums(r, v) += left(r, k) x right(k, v)
void Emitter::dot_step(const DotTask& task, Value* left, Value* right, Value* k, std::int64_t first_vector,
                       int rows, int vectors, const std::vector<Value*>& sums) {
  llvm::Type* scalar = builder_.getFloatTy();
  llvm::Type* type = type_of(ir::DType::f32, true);
  Value* left_k = dot_element({left, task.left.strides, false}, {{task.contract, k}});
  Value* right_k = dot_element({right, task.right.strides, false}, {{task.contract, k}});
  std::vector<Value*> loaded;
  for (int v = 0; v < vectors; ++v) {
    Value* pointer =
        builder_.CreateConstInBoundsGEP1_64(scalar, right_k, static_cast<std::uint64_t>(v * width_));
    const std::int64_t left_over = program_.extent(task.column) - (first_vector + v) * width_;
    if (task.right.padded || left_over >= width_) {
      loaded.push_back(builder_.CreateAlignedLoad(type, pointer, llvm::Align(4)));
    } else {
      std::vector<llvm::Constant*> bits;
      for (int lane = 0; lane < width_; ++lane) bits.push_back(builder_.getInt1(lane < left_over));
      loaded.push_back(builder_.CreateMaskedLoad(type, pointer, llvm::Align(4),
                                                 llvm::ConstantVector::get(bits),
                                                 llvm::Constant::getNullValue(type)));
    }
  }
  const std::int64_t row_stride = task.row < 0 ? 0 : task.left.strides.at(task.row);
  for (int r = 0; r < rows; ++r) {
    Value* pointer =
        builder_.CreateConstInBoundsGEP1_64(scalar, left_k, static_cast<std::uint64_t>(r * row_stride));
    Value* factor = builder_.CreateVectorSplat(static_cast<unsigned>(width_),
                                               builder_.CreateAlignedLoad(scalar, pointer, llvm::Align(4)));
    for (int v = 0; v < vectors; ++v) {
      Value* sum = sums[static_cast<std::size_t>(r * vectors + v)];
      Value* added = math_.fma(factor, loaded[static_cast<std::size_t>(v)], builder_.CreateLoad(type, sum));
      builder_.CreateStore(added, sum);
    }
  }
}

/// Copies the right operand to a slot with lanes (k, j), square blocks of W x W through registers.
Emitter::DotView Emitter::pack(const DotTask& task, const DotView& right, std::int32_t slot_index) {
  const Slot& slot = program_.slots[static_cast<std::size_t>(slot_index)];
  const DotView packed{slots_[static_cast<std::size_t>(slot_index)],
                       {{task.contract, program_.slot_extents(slot)[1]}, {task.column, 1}},
                       true};
  const std::int64_t columns = program_.extent(task.column);
  const std::int64_t contract = program_.extent(task.contract);
  const auto number = [&](std::int64_t value) {
    return builder_.getInt64(static_cast<std::uint64_t>(value));
  };
  const auto blocks_of_k = [&](Value* column, int live_columns) {
    const std::int64_t whole = contract / width_ * width_;
    const auto block = [&](Value* k, int live) {
      pack_block(task, right, packed, k, live, column, live_columns);
    };
    if (whole > 0) loop(number(0), number(whole), width_, [&](Value* k) { block(k, width_); });
    if (whole < contract) block(number(whole), static_cast<int>(contract - whole));
  };
  const std::int64_t whole = columns / width_ * width_;
  if (whole > 0) loop(number(0), number(whole), width_, [&](Value* column) { blocks_of_k(column, width_); });
  if (whole < columns) blocks_of_k(number(whole), static_cast<int>(columns - whole));
  return packed;
}

/// Transposes the block right(k .. k + live_k, j .. j + live_columns): reads it along k where that is
/// contiguous, else element by element, and writes it along j. Columns that do not exist become 0.
void Emitter::pack_block(const DotTask& task, const DotView& right, const DotView& packed, Value* k,
                         int live_k, Value* column, int live_columns) {
  llvm::Type* scalar = builder_.getFloatTy();
  llvm::Type* type = type_of(ir::DType::f32, true);
  const std::int64_t k_stride = right.strides.at(task.contract);
  const std::int64_t column_stride = right.strides.at(task.column);
  Value* source = dot_element(right, {{task.contract, k}, {task.column, column}});
  std::vector<Value*> block(static_cast<std::size_t>(width_), llvm::Constant::getNullValue(type));
  for (int j = 0; j < live_columns; ++j) {
    Value* pointer =
        builder_.CreateConstInBoundsGEP1_64(scalar, source, static_cast<std::uint64_t>(j * column_stride));
    Value*& line = block[static_cast<std::size_t>(j)];
    std::vector<llvm::Constant*> bits, offsets;
    for (int lane = 0; lane < width_; ++lane) {
      bits.push_back(builder_.getInt1(lane < live_k));
      offsets.push_back(number_constant(lane * k_stride));
    }
    Value* lanes = llvm::ConstantVector::get(bits);
    if (k_stride == 1 && live_k == width_) {
      line = builder_.CreateAlignedLoad(type, pointer, llvm::Align(4));
    } else if (k_stride == 1) {
      line = builder_.CreateMaskedLoad(type, pointer, llvm::Align(4), lanes, line);
    } else {
      Value* pointers = builder_.CreateGEP(scalar, pointer, llvm::ConstantVector::get(offsets));
      line = builder_.CreateMaskedGather(type, pointers, llvm::Align(4), lanes, line);
    }
  }
  transpose(block);
  Value* target = dot_element(packed, {{task.contract, k}, {task.column, column}});
  const std::int64_t packed_stride = packed.strides.at(task.contract);
  for (int line = 0; line < live_k; ++line) {
    Value* pointer =
        builder_.CreateConstInBoundsGEP1_64(scalar, target, static_cast<std::uint64_t>(line * packed_stride));
    builder_.CreateAlignedStore(block[static_cast<std::size_t>(line)], pointer,
                                llvm::Align(static_cast<std::uint64_t>(width_) * 4));
  }
}

llvm::Constant* Emitter::number_constant(std::int64_t value) {
  return llvm::ConstantInt::get(builder_.getInt64Ty(), static_cast<std::uint64_t>(value), true);
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
