// The tile IR: a kernel is a program over a grid, computing with block-level values. It defines what is
// read, computed, reduced and written per program instance. It leaves lanes, registers and threads to the
// schedule and the printers (codegen/llvm, codegen/cuda). The fuser (codegen/fuse) and the attention builder
// (codegen/tile/attention.h) write it; two printers read it.
//
// Axes. A kernel has axes with static extents. Each is used in one way:
//   outer   one program instance per point: the grid
//   row     walked in order inside an instance, as one linear row space (several row axes = their row-major
//           product). The row space is cut into `partitions` equal parts (the last may be short). Each part
//           is its own instance: instances = product(outer) x partitions. Partitions depend on shapes alone,
//           never on the number of threads, so sums keep their order.
//   lane    the axes of block-level values. A value has a subset of the lane axes, in kernel order, and all
//           of it is held on chip (registers, scratch in L1, shared memory). The last lane axis is the
//           vector axis.
//
// The program of one instance, with its outer indices and its part of the rows fixed:
//   prologue            once
//   for each row        `body`; carried values flow from row to row
//   epilogue            once, sees the carried values' last versions
// A kernel without row axes has an empty body and does all in the prologue.
//
// Example: LayerNorm's backward over 3200 rows of 192, with the gradients of weight and bias as partial sums
// (P = 64):
//   kernel layer_norm_backward  outer ()  rows (r 3200) / 64  lanes (c 192)
//     prologue:  %w = load weight[c]; %z = constant 0 : (c)
//     body:      carry %aw = %z, %ab = %z
//                %g = load g[192 r + c]; %x = load x[192 r + c]; … %s = sum %gw over (c); …
//                store dx[192 r + c] = %dx;  %aw' = add %aw, %t;  %ab' = add %ab, %g;  yield %aw', %ab'
//     epilogue:  store partial_w[192 part + c] = %aw';  store partial_b[192 part + c] = %ab'
#pragma once

#include <cstdint>
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
      lanes;  // indices into Kernel::axes, ascending; empty: one scalar per row (or instance)
};

/// The element index is offset + sum over axes of stride[axis] x index(axis) + part_stride x partition. A
/// stride of 0 repeats.
struct Access {
  std::int32_t argument = 0;
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides;  // one per kernel axis
  std::int64_t part_stride = 0;
};

struct Load {
  TileValue result;
  Access access;
  TileValue index;  // gather: adds index(value) x index_stride; invalid: none
  std::int64_t index_stride = 0;
  std::int64_t index_limit = 0;  // the index is clamped to [0, index_limit)
};
struct Store {
  TileValue value;  // broadcast over the lane axes of the access with a stride != 0 that it lacks
  Access access;
  TileValue predicate;  // scalar i1: store nothing when false; invalid: always
};
/// One op of the table's pointwise class, applied element by element with broadcasting over missing lane
/// axes. `direction` is for compare. cast takes the result's dtype.
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
/// Reduces over one or more lane axes, which the result loses. The schedule fixes the order.
struct Reduce {
  TileValue result;
  ReduceKind kind{};
  TileValue operand;
  std::vector<std::int32_t> axes;
};
/// Computes result(i…, j) = sum over k of a(i…, k) x b(k, j). a and b share the lane axis `contract`, which
/// the result loses.
struct Dot {
  TileValue result;
  TileValue a, b;
  std::int32_t contract = 0;
};
/// Draws uniform [0, 1) or normal numbers from Philox (ir/philox.h). The access gives the element index
/// (argument unused).
struct Random {
  TileValue result;
  bool normal = false;
  TileValue seed, step;  // scalars i64
  std::uint64_t stream = 0;
  Access element;
  // If valid, they replace `stream`: its 32-bit halves, scalars i64.
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

struct Kernel {
  std::string name;                 // readable, unique in its program: "join_norm_3200x192"
  std::vector<std::string> origin;  // provenance lines: the IR ops it fuses, "%12 residual blocks.3.attn"
  std::vector<Axis> axes;
  std::vector<Argument> arguments;
  std::int64_t partitions = 1;
  std::vector<ValueInfo> values;
  std::vector<Node> prologue, body, epilogue;
  std::vector<Carried> carried;

  std::int64_t instances() const;  // product of the outer extents x partitions
  std::int64_t row_count() const;  // product of the row extents; 1 without row axes
  /// Returns the rows of a partition: p walks rows [p x this, (p + 1) x this), cut off at row_count().
  std::int64_t rows_per_partition() const;
};

/// Returns the readable text of a kernel: `rewire dump --stage tile`. Deterministic.
std::string print(const Kernel& kernel);
enum class Numbers : std::uint8_t { shown, hidden };
/// Returns the text that identifies a kernel's machine code: print() without names and provenance. Two
/// kernels of one structure share code. With numbers hidden, all constants and all random streams count as
/// equal.
std::string structure(const Kernel& kernel, Numbers numbers = Numbers::shown);
/// Throws InternalError naming the node if a kernel breaks a rule above: values defined before use and once,
/// lanes consistent, axes used right, accesses with one stride per axis, row indices only in the body, no
/// row stride in prologue and epilogue.
void verify(const Kernel& kernel);

}  // namespace rewire::codegen::tile
