// What codegen makes of one IR function: buffers and a straight list of launches over views of them. The
// runtime plans the memory of the temporaries and runs the list; it decides nothing about the mathematics.
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

/// What one more use of a kernel's code is bound to.
struct LaunchMember {
  std::string name;  // the kernel's, had it been launched alone
  std::vector<std::int32_t> buffers;
};

/// A tile kernel with its arguments bound: Kernel::arguments[i] points at element 0 of buffers[i] (the
/// kernel's accesses carry offsets). With `others` it is a table: the same code over several lists of
/// buffers at once, none of which writes what another touches (tables.h).
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

/// What a product's call computes with its elements on the way out, where a library can (gelu by tanh, as of
/// the op's approximate="tanh"). With s = a b:
///   gelu           pre = s + bias [n],  c = gelu(pre);  pre is kept where somebody reads it
///   gelu_gradient  c = s gelu'(pre),    bias [n] = the sum of c's rows, which is written
enum class GemmEpilogue : std::uint8_t { none, gelu, gelu_gradient };

/// c [batch, m, n] = a [batch, m, k] b [batch, k, n] (+ bias [n]) (+ c): views carry transposition as
/// strides; batch may be 1 with rank-3 views. a and b have one dtype. Where it is bf16, c and the bias may
/// each be bf16 or f32: the sum is f32 and rounded once. With an epilogue pre lies as c does in a buffer of
/// its own, and the bias that is written has c's dtype.
struct GemmLaunch {
  View a, b, c;
  View bias;                // buffer -1: none; shape [n]
  bool accumulate = false;  // add to what c holds
  bool exact = false;       // never by TF32: an operand is a constant, as of a Fourier transform
  std::string location;
  GemmEpilogue epilogue = GemmEpilogue::none;
  View pre;  // buffer -1: not kept

  /// The buffers that it reads, and those that it writes.
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

/// An op that is no kernel of ours: a library computes it on strided views, or the evaluator's own function
/// does. Each engine has a table of the ops that it has a library for.
struct OpCall {
  ir::Op op;
  std::vector<View> operands, results;
};

using Launch = std::variant<KernelLaunch, GemmLaunch, OpCall>;

/// A product with its epilogue, as a choice knows it: c is [m, n] in all.
struct ProductEpilogue {
  GemmEpilogue epilogue = GemmEpilogue::none;
  bool keeps_pre = false;  // writes it, or reads it for the gradient
  std::int64_t m = 0, n = 0, k = 0;
  ir::DType dtype = ir::DType::f32;   // of a and b
  ir::DType result = ir::DType::f32;  // of c
  auto operator<=>(const ProductEpilogue&) const = default;
};

/// Why a group of ops became one kernel: `rewire dump --stage fused`.
struct GroupReport {
  std::string kernel;  // its name, or that of a table's member
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

/// How finely kernels cut their work, a function of the shape and of these numbers alone, and what the GEMM
/// library takes. What suits a machine is its printer's to say; the defaults suit a few cores with large
/// caches and oneDNN.
struct WorkGrain {
  std::int64_t elements_per_instance = 16384;  // a row space is cut into parts of no fewer
  std::int64_t max_instances = 64;             // and into no more parts
  std::int64_t lane_elements = 65536;          // most that a fused kernel holds on chip at once
  std::int64_t attention_elements = 65536;     // most queries x keys on chip at once
  bool bias_like_result = false;               // GEMMs take a bias of their result's dtype alone
  bool any_float_product = false;              // GEMMs take f64 and f16 beside f32 and bf16
  // Of bf16, rounded for tensor cores (tile/attention.h), and of its gradient; 0: it is not.
  std::int64_t narrow_attention_elements = 0, narrow_gradient_elements = 0;
  std::int64_t table_bytes = 131072;  // larger tensors are not held longer to spare a launch
  // A sum over rows and so many lanes adds each row first, and sums along rows have the rows as lanes; 0: not
  // so.
  std::int64_t row_sum_lanes = 64;
  // A kernel that sums columns and no lanes may be cut into blocks of so many lanes side by side, which count
  // as instances like its parts; 0: it is not.
  std::int64_t lanes_side_by_side = 0;
  // Rows of a part that sums columns are a multiple of this: what a block walks at once.
  std::int64_t rows_at_once = 1;
  // Ops that a kernel computes. A join of four lanes with dynamic weights takes 450 backward, and in two
  // kernels would read and write all lanes once more; beyond this, compilation dominates.
  std::int64_t group_ops = 600;
  // Places of a row that sort and scatter_add compare in pairs (fuse/indexed.h); more of them the host
  // computes.
  std::int64_t counted_places = 1024;
};

struct FuseOptions {
  bool fuse = true;  // false: one kernel an op, for the differential tests
  WorkGrain grain = {};
  bool tables = true;         // false: every kernel has a launch of its own
  ir::LeftOut left_out = {};  // of lowering_steps.h
  bool does(std::string_view step) const { return !left_out.contains(step); }
  /// Whether the device's library computes this attention in place of our kernels; empty: it computes none.
  std::function<bool(const Program&, const OpCall&)> attention = {};
  /// Whether a product's call computes this epilogue, and no kernel of ours; empty: none does.
  std::function<bool(const ProductEpilogue&)> epilogue = {};
};

/// The function must be simplified and decomposed (ir::run_pipeline). InternalError on an op that has no
/// lowering.
Program lower(const ir::Module& module, const ir::Function& function, const FuseOptions& options = {});

/// Readable text: `rewire dump --stage fused`.
std::string print(const Program& program);
/// The same of one kernel: the buffers that it touches, and the ops that became it.
std::string print_kernel(const Program& program, const KernelLaunch& launch, std::size_t member);

}  // namespace rewire::codegen
