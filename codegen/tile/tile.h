// The tile IR. A kernel is a program that runs once per point of a grid (a program instance) and computes
// with block-level values, which are small tensors. It defines what each instance reads, computes, reduces
// and writes. The schedule and the printers (codegen/llvm, codegen/cuda) decide how lanes become vectors,
// registers and threads. The fuser (codegen/fuse) and the attention builder (codegen/tile/attention.h) make
// kernels; the two printers turn them into LLVM IR and CUDA C++.
//
// Axes. A kernel has axes with static extents. Each has one use:
//   outer   the grid: one program instance per point
//   row     An instance walks the rows in order. Several row axes form one linear row space, their row-major
//           product. The row space is cut into `partitions` equal parts (the last may be short), and each
//           part is an instance of its own: instances = product(outer) x partitions. Partitions depend on
//           shapes alone, never on the number of threads, so sums keep their order.
//   lane    the axes of block-level values. A value has a subset of the lane axes, in kernel order, and all
//           of it is held on chip (registers, scratch in L1, shared memory). The last lane axis is the
//           vector axis.
//
// The program of one instance, with its outer indices and its part of the rows fixed:
//   prologue            once
//   for each row        `body`; carried values pass from row to row
//   epilogue            once; reads the last values of the carried values
// With RowBounds, an instance walks only some of the rows, which its prologue computes: in causal attention the
// keys that a tile of queries sees.
// A kernel without row axes has an empty body and does everything in the prologue.
//
// Example: the backward pass of LayerNorm over 3200 rows of 192. The gradients of weight and bias are
// partial sums, one per partition (64):
//   kernel layer_norm_backward  outer ()  rows (r 3200) / 64  lanes (c 192)
//     prologue:  %w = load weight[c]; %z = constant 0 : (c)
//     body:      carry %aw = %z, %ab = %z
//                %g = load g[192 r + c]; %x = load x[192 r + c]; … %s = sum %gw over (c); …
//                store dx[192 r + c] = %dx;  %aw' = add %aw, %t;  %ab' = add %ab, %g;  yield %aw', %ab'
//     epilogue:  store partial_w[192 part + c] = %aw';  store partial_b[192 part + c] = %ab'
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/opcode.h"
#include "ir/types.h"

namespace rewire::codegen::tile {

enum class AxisUse : std::uint8_t { outer, row, lane };

struct Axis {
  std::string name;  // b, n, c, k …: letters and digits
  std::int64_t extent = 1;
  AxisUse use = AxisUse::lane;
};

/// A block-level value: an index into Kernel::values.
struct TileValue {
  std::int32_t id = -1;
  explicit operator bool() const { return id >= 0; }
  auto operator<=>(const TileValue&) const = default;
};

struct ValueInfo {
  ir::DType dtype = ir::DType::f32;  // the type it is computed in; i1 for truth values
  std::vector<std::int32_t>
      lanes;  // indices into Kernel::axes, ascending; empty: a scalar for each row (or instance)
};

/// The element index is offset + sum over axes of stride[axis] x index(axis) + part_stride x partition.
/// With a stride of 0, all indices along the axis access the same element.
struct Access {
  std::int32_t argument = 0;
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides;  // one per kernel axis
  std::int64_t part_stride = 0;
};

struct Load {
  TileValue result;
  Access access;
  TileValue index;  // of a gather: adds its value x index_stride; invalid: none
  std::int64_t index_stride = 0;
  std::int64_t index_limit = 0;  // the index is clamped to [0, index_limit)
};
struct Store {
  TileValue value;  // is broadcast to lane axes that it lacks and whose stride in the access is not 0
  Access access;
  TileValue predicate;  // scalar i1: store nothing when false; invalid: always
};
/// A pointwise op of the op table, applied element by element. Operands are broadcast to lane axes that
/// they lack. `direction` is for compare. cast converts to the result's dtype. An erf of x may have exp(-x^2)
/// as a second operand (erf_by_exp.h).
struct Pointwise {
  TileValue result;
  ir::Opcode code{};
  std::vector<TileValue> operands;
  std::string direction;
};
struct Constant {
  TileValue result;
  double value = 0;
};
/// The index along an axis (lane, row or outer), as the result's dtype.
struct Index {
  TileValue result;
  std::int32_t axis = 0;
};
enum class ReduceKind : std::uint8_t { sum, max };
/// Reduces over one or more lane axes, which the result does not have. The schedule fixes the order.
struct Reduce {
  TileValue result;
  ReduceKind kind{};
  TileValue operand;
  std::vector<std::int32_t> axes;
};
/// Computes result(i…, j) = sum over k of a(i…, k) x b(k, j). a and b share the lane axis `contract` (k),
/// which the result does not have.
struct Dot {
  TileValue result;
  TileValue a, b;
  std::int32_t contract = 0;
};
/// Draws uniform [0, 1) or normal numbers from Philox (ir/philox.h). `element` gives the element's index;
/// its argument is not used.
struct Random {
  TileValue result;
  bool normal = false;
  TileValue seed, step;  // scalars i64
  std::uint64_t stream = 0;
  Access element;
  // If valid, they replace `stream`: i64 scalars with its lower and upper 32 bits.
  TileValue stream_low = {}, stream_high = {};
};

using Node = std::variant<Load, Store, Pointwise, Constant, Index, Reduce, Dot, Random>;

struct Carried {
  TileValue initial;  // from the prologue
  TileValue entry;    // its name inside the body
  TileValue next;     // what the body yields
  TileValue last;     // its name in the epilogue
};

enum class ArgumentUse : std::uint8_t { read, write, read_write };

struct Argument {
  std::string name;  // from the IR: blocks.3.norm1.weight, x, dx …
  ir::DType dtype = ir::DType::f32;
  ArgumentUse use = ArgumentUse::read;
};

/// The rows that an instance walks, along the last row axis: from `first` up to and without `end`, cut off at the
/// axis' ends. Other row axes are walked whole. Only in a kernel with one partition.
struct RowBounds {
  TileValue first, end;     // scalars i32 of the prologue
  std::int64_t visits = 0;  // by all instances together, as far as it is known: what costs are counted by
};

/// The last tile of an axis in tiles may be short. The point of index i along the outer or row axis `tile` and
/// l along `lane` is number i x extent(lane) + l. From `count` on, loads that move along the lane give 0, and
/// such stores write nothing.
struct ShortTile {
  std::int32_t tile = 0, lane = 0;
  std::int64_t count = 1;
};

struct Kernel {
  std::string name;                 // readable, unique in its program: "join_norm_3200x192"
  std::vector<std::string> origin;  // the IR ops that it computes: "%12 residual blocks.3.attn"
  std::vector<Axis> axes;
  std::vector<Argument> arguments;
  std::int64_t partitions = 1;
  std::vector<ValueInfo> values;
  std::vector<Node> prologue, body, epilogue;
  std::vector<Carried> carried;
  std::optional<RowBounds> bounds;
  std::vector<ShortTile> short_tiles;

  std::int64_t instances() const;  // product of the outer extents x partitions
  std::int64_t row_count() const;  // product of the row extents; 1 without row axes
  /// Returns the rows of a partition: p walks rows [p x this, (p + 1) x this), cut off at row_count().
  std::int64_t rows_per_partition() const;
  /// Returns how often all instances together run the body.
  std::int64_t row_visits() const;
};

/// Returns the readable text of a kernel: `rewire dump --stage tile`. Deterministic.
std::string print(const Kernel& kernel);
enum class Numbers : std::uint8_t { shown, hidden };
/// Returns the text that identifies a kernel's machine code: print() without names and provenance. Kernels
/// with the same structure share machine code. With numbers hidden, all constants and all random streams
/// count as equal.
std::string structure(const Kernel& kernel, Numbers numbers = Numbers::shown);
/// Throws InternalError, naming the node, if a kernel breaks a rule above: a value is defined once, before
/// its use; lanes are consistent; axes are used as declared; an access has one stride per axis; row indices
/// appear only in the body, and no row strides in prologue and epilogue. verify.cpp lists the rules.
void verify(const Kernel& kernel);

}  // namespace rewire::codegen::tile
