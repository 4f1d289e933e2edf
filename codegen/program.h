// The output of codegen for one IR function: buffers, and a straight list of launches over views of them.
// The runtime plans the memory of the temporaries and runs the list; it decides nothing about the
// mathematics.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "codegen/tile/tile.h"
#include "ir/module.h"
#include "ir/passes/left_out.h"

namespace rewire::codegen {

enum class BufferKind : std::uint8_t { argument, result, state, constant, temporary };

struct Buffer {
  std::string
      name;  // argument, result or parameter name; for temporaries the location of the op that makes it
  BufferKind kind = BufferKind::temporary;
  ir::TensorType type;         // dense row-major unless a view says otherwise
  std::vector<double> values;  // constants: one value for all elements, or all of them row-major
};

/// A strided window on a buffer, in elements. Aliases are views of one buffer, never two buffers.
struct View {
  std::int32_t buffer = -1;
  std::int64_t offset = 0;
  ir::Shape shape;
  ir::Shape strides;
};

/// The buffers of one more use of a kernel's code.
struct LaunchMember {
  std::string name;  // the name of the kernel, had it been launched alone
  std::vector<std::int32_t> buffers;
};

/// A tile kernel with its arguments bound: Kernel::arguments[i] points at element 0 of buffers[i] (the
/// kernel's accesses carry offsets). With `others` it is a table: one code over several lists of buffers at
/// once, none of which writes what another touches (tables.h).
struct KernelLaunch {
  tile::Kernel kernel;
  std::vector<std::int32_t> buffers;
  std::vector<LaunchMember> others = {};

  bool is_table() const { return !others.empty(); }
  std::size_t members() const { return 1 + others.size(); }
  const std::vector<std::int32_t>& member_buffers(std::size_t member) const {
    return member == 0 ? buffers : others[member - 1].buffers;
  }
  const std::string& member_name(std::size_t member) const {
    return member == 0 ? kernel.name : others[member - 1].name;
  }
};

/// An epilogue: what a product's call computes with its elements before it writes them, where a library can.
/// GELU is by tanh (the op's approximate="tanh"). With s = a b:
///   gelu           pre = s + bias [n],  c = gelu(pre);  pre is kept if something reads it
///   gelu_gradient  c = s gelu'(pre),    bias [n] = the sum of c's rows, which is written
enum class GemmEpilogue : std::uint8_t { none, gelu, gelu_gradient };

/// A product c [batch, m, n] = a [batch, m, k] b [batch, k, n] (+ bias [n]) (+ c). Views carry transposition
/// as strides; batch may be 1 with rank-3 views. a and b have one dtype. Where it is bf16, c and the bias
/// may each be bf16 or f32: the sum is f32 and rounded once. With an epilogue, pre has c's layout in a
/// buffer of its own, and a bias that is written has c's dtype.
struct GemmLaunch {
  View a, b, c;
  View bias;                // buffer -1: none; shape [n]
  bool accumulate = false;  // add to what c holds
  bool exact = false;       // never in TF32: an operand is a constant, as for a Fourier transform
  std::string location;
  GemmEpilogue epilogue = GemmEpilogue::none;
  View pre;  // buffer -1: not kept

  /// The buffers that the product reads, and the buffers that it writes.
  std::vector<std::int32_t> reads() const {
    const bool gradient = epilogue == GemmEpilogue::gelu_gradient;
    std::vector<std::int32_t> buffers = {a.buffer, b.buffer};
    if (gradient) buffers.push_back(pre.buffer);
    if (bias.buffer >= 0 && !gradient) buffers.push_back(bias.buffer);
    if (accumulate) buffers.push_back(c.buffer);
    return buffers;
  }
  std::vector<std::int32_t> writes() const {
    const bool gradient = epilogue == GemmEpilogue::gelu_gradient;
    std::vector<std::int32_t> buffers = {c.buffer};
    if (gradient) buffers.push_back(bias.buffer);
    if (pre.buffer >= 0 && !gradient) buffers.push_back(pre.buffer);
    return buffers;
  }
};

/// An op without a kernel of ours. A library computes it on strided views, or the evaluator's own function
/// does. Each engine has a table of the ops that it has a library for.
struct OpCall {
  ir::Op op;
  std::vector<View> operands, results;
};

using Launch = std::variant<KernelLaunch, GemmLaunch, OpCall>;

/// A product with its epilogue, as choices identify it: c is [m, n], batch included.
struct ProductEpilogue {
  GemmEpilogue epilogue = GemmEpilogue::none;
  bool keeps_pre = false;  // writes it, or reads it for the gradient
  std::int64_t m = 0, n = 0, k = 0;
  ir::DType dtype = ir::DType::f32;   // of a and b
  ir::DType result = ir::DType::f32;  // of c
  auto operator<=>(const ProductEpilogue&) const = default;
};

/// Reports why a group of ops became one kernel (`rewire dump --stage fused`).
struct GroupReport {
  std::string kernel;  // its name, or a table member's
  std::vector<std::string> ops;
  std::int64_t bytes_read = 0, bytes_written = 0, flops = 0;
  std::string stopped;  // why the group stopped growing
};

struct Program {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<Launch> launches;  // in execution order
  std::vector<GroupReport> groups;
};

/// Limits on how finely kernels cut their work, and on what the GEMM library takes. Cuts depend on the shape
/// and on these numbers alone. The printer of a machine chooses them; the defaults suit a few cores with
/// large caches and oneDNN.
struct WorkGrain {
  std::int64_t elements_per_instance = 16384;  // the fewest elements in a part of a row space
  std::int64_t max_instances = 64;             // the most parts of a row space
  std::int64_t lane_elements = 65536;          // the most that a fused kernel holds on chip at once
  std::int64_t attention_elements = 65536;     // the most queries x keys on chip at once
  bool bias_like_result = false;               // GEMMs take only a bias of their result's dtype
  bool any_float_product = false;              // GEMMs take f64 and f16 besides f32 and bf16
  // Limits for bf16 attention rounded for tensor cores (tile/attention.h), and its gradient; 0: not rounded.
  std::int64_t narrow_attention_elements = 0, narrow_gradient_elements = 0;
  std::int64_t table_bytes = 131072;  // larger tensors are not held longer to save a launch
  // A sum over rows and at least this many lanes adds each row first, and sums along rows take the summed
  // axes as lanes; 0: neither.
  std::int64_t row_sum_lanes = 64;
  // A kernel that sums columns and no lanes may be cut into blocks of this many lanes side by side, which
  // count as instances as parts do; 0: it is not cut.
  std::int64_t lanes_side_by_side = 0;
  // The rows of a part that sums columns are a multiple of this, the rows that a block walks at once.
  std::int64_t rows_at_once = 1;
  // The most ops of a kernel. A join of four lanes with dynamic weights has 450 backward; in two kernels it
  // would read and write all lanes once more. Beyond this limit compilation dominates.
  std::int64_t group_ops = 600;
  // The most places of a row that sort and scatter_add compare in pairs (fuse/indexed.h); the host computes
  // longer rows.
  std::int64_t counted_places = 1024;
};

struct FuseOptions {
  bool fuse = true;  // false: one kernel per op, for the differential tests
  WorkGrain grain = {};
  bool tables = true;         // false: each kernel has a launch of its own
  ir::LeftOut left_out = {};  // names from lowering_steps.h
  bool does(std::string_view step) const { return !left_out.contains(step); }
  /// Returns whether the device's library computes this attention instead of our kernels. Empty: never.
  std::function<bool(const Program&, const OpCall&)> attention = {};
  /// Returns whether a product's call computes this epilogue instead of our kernels. Empty: never.
  std::function<bool(const ProductEpilogue&)> epilogue = {};
};

/// Lowers a function, which must be simplified and decomposed (ir::run_pipeline). Throws InternalError on an
/// op that has no lowering.
Program lower(const ir::Module& module, const ir::Function& function, const FuseOptions& options = {});

/// Returns the program as readable text: `rewire dump --stage fused`.
std::string print(const Program& program);
/// Returns the text of one kernel: the buffers that it touches, and the ops that became it.
std::string print_kernel(const Program& program, const KernelLaunch& launch, std::size_t member);

}  // namespace rewire::codegen
