// The output of codegen for one IR function: buffers, and a list of launches, without control flow, that
// read and write views of these buffers. The runtime plans the memory of the temporaries and runs the list.
// It does not change what is computed.
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
  std::string name;  // of the argument, result or parameter; of a temporary: the location of its op
  BufferKind kind = BufferKind::temporary;
  ir::TensorType type;         // dense row-major unless a view says otherwise
  std::vector<double> values;  // constants: one value for all elements, or all of them row-major
};

/// A strided window of a buffer, in elements. Aliases are views of the same buffer, never two buffers.
struct View {
  std::int32_t buffer = -1;
  std::int64_t offset = 0;
  ir::Shape shape;
  ir::Shape strides;
  bool operator==(const View&) const = default;
};

/// A further member of a table: it runs the kernel's code on other buffers.
struct LaunchMember {
  std::string name;  // the name that the kernel would have if launched alone
  std::vector<std::int32_t> buffers;
};

/// A tile kernel with its arguments bound: Kernel::arguments[i] points at element 0 of buffers[i] (the
/// kernel's accesses carry offsets). With `others` it is a table (tables.h): one launch runs the kernel's
/// code on several lists of buffers. No member writes a buffer that another member reads or writes.
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

/// An epilogue: work that the call of a matrix product does on the elements of its result before it writes
/// them, if the library can. GELU is the tanh form (the op's approximate="tanh"). With s = a b:
///   gelu           pre = s + bias [n],  c = gelu(pre);  pre is written too, if something reads it
///   gelu_gradient  c = s gelu'(pre);  bias [n] is an output: the sum of c's rows
enum class GemmEpilogue : std::uint8_t { none, gelu, gelu_gradient };

/// A matrix product c [batch, m, n] = a [batch, m, k] b [batch, k, n] (+ bias [n]) (+ c). Batch is any
/// number of leading axes. Views express transposition by their strides. a and b have the same dtype. If it
/// is bf16, c and the bias may each be bf16 or f32; the sum is computed in f32 and rounded once. With an
/// epilogue, pre has c's layout, in a buffer of its own, and a bias that is written has c's dtype.
struct GemmLaunch {
  View a, b, c;
  View bias;                // buffer -1: none; shape [n]
  bool accumulate = false;  // add to what c holds
  bool exact = false;       // never TF32: an operand is constant, as in a Fourier transform
  std::string location;
  GemmEpilogue epilogue = GemmEpilogue::none;
  View pre;  // buffer -1: not written or read

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

/// An op that does not become a tile kernel or a GemmLaunch. A library computes it on strided views;
/// otherwise the evaluator's function does. Each engine has a table of the ops that its libraries compute.
struct OpCall {
  ir::Op op;
  std::vector<View> operands, results;
};

using Launch = std::variant<KernelLaunch, GemmLaunch, OpCall>;

/// Identifies a product with an epilogue when choices are recorded. c is [m, n]; m includes the batch.
struct ProductEpilogue {
  GemmEpilogue epilogue = GemmEpilogue::none;
  bool keeps_pre = false;  // gelu: whether pre is written; gelu_gradient: it is read
  std::int64_t m = 0, n = 0, k = 0;
  ir::DType dtype = ir::DType::f32;   // of a and b
  ir::DType result = ir::DType::f32;  // of c
  auto operator<=>(const ProductEpilogue&) const = default;
};

/// A report on the group of ops that became a kernel (`rewire dump --stage fused`).
struct GroupReport {
  std::string kernel;  // its name, or that of the table's member
  std::vector<std::string> ops;
  std::int64_t bytes_read = 0, bytes_written = 0, flops = 0;
  std::string stopped;  // the last op that was tried and did not join, with the reason; "": none
};

struct Program {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<Launch> launches;  // in execution order
  std::vector<GroupReport> groups;
};

/// A machine's limits on how kernels divide their work, and what its GEMM library accepts. The division
/// depends only on shapes and on these numbers. Each backend sets them; the defaults are for a CPU with a
/// few cores, large caches and oneDNN. A kernel's rows are divided into parts, and each part is a program
/// instance (tile/tile.h).
struct WorkGrain {
  std::int64_t elements_per_instance = 16384;  // the fewest elements in a part of a kernel's rows
  std::int64_t max_instances = 64;             // the most parts of a kernel's rows
  std::int64_t lane_elements = 65536;          // the most elements along all lanes of a fused kernel
  std::int64_t attention_elements = 65536;     // the most queries x keys that attention holds on chip
  bool attention_adds_in_memory = true;        // tile::AttentionShape::adds_in_memory
  bool bias_like_result = false;               // GEMMs accept only a bias of their result's dtype
  bool any_float_product = false;              // GEMMs accept f64 and f16 besides f32 and bf16
  // The limits for `narrow` bf16 attention and for its gradient (AttentionShape::tile_elements in
  // tile/attention.h); 0: attention is not narrow.
  std::int64_t narrow_attention_elements = 0, narrow_gradient_elements = 0;
  std::int64_t narrow_summed_width = 0;  // AttentionShape::summed_width, where attention is narrow
  std::int64_t narrow_streamed_keys = 0, narrow_streamed_sums = 0;  // AttentionShape, where it is narrow
  std::int64_t narrow_walked_tokens = 0;  // AttentionShape::walked_tokens, where it is narrow
  bool erf_by_exp = false;  // kernels compute erf from the exponential beside it (tile/erf_by_exp.h)
  std::int64_t table_bytes = 131072;  // larger tensors are not held longer for a table (tables.h)
  // If a sum runs over rows and over at least this many lanes, the lanes of each row are added first, and
  // one number is carried over the rows. If not 0, sums along rows also take the summed axes as lanes. 0:
  // neither.
  std::int64_t row_sum_lanes = 64;
  // A kernel that sums over rows, but not over lanes, may be divided along its lanes into blocks of this
  // many lanes. Such blocks count towards max_instances. 0: it is not divided along lanes.
  std::int64_t lanes_side_by_side = 0;
  // The rows that a block walks at once. If a part has more rows, their number is a multiple of this.
  std::int64_t rows_at_once = 1;
  // The most ops of a kernel. The largest join of the supplied plugins, with four lanes, has 450 ops in
  // the backward pass; in two kernels it would read and write all lanes once more. What more ops cost
  // in registers is in docs/design/fusion.md. Kernels with more ops take too long to compile.
  std::int64_t group_ops = 600;
  // The most ops of a kernel with fewer than kFewElements elements (grouping.h).
  std::int64_t few_elements_ops = 600;
  // The longest row for which sort and scatter_add compare all pairs of places in a kernel
  // (fuse/indexed.h). The host computes longer rows.
  std::int64_t counted_places = 1024;
  // The most pairs of places of a scatter_add of f32 that is compared so; with more, the engine has a call of
  // its own for it.
  std::int64_t counted_pairs = std::int64_t{1} << 18;
  bool ranked_scatters = false;  // kernels sort the places of a large scatter_add (fuse/ranked_scatter.h)
};

struct FuseOptions {
  bool fuse = true;  // false: one kernel per op, for the differential tests
  WorkGrain grain = {};
  bool tables = true;         // false: one launch per kernel
  ir::LeftOut left_out = {};  // names from lowering_steps.h
  bool does(std::string_view step) const { return !left_out.contains(step); }
  /// Returns whether the device's library, instead of our kernels, computes this attention. Empty: never.
  std::function<bool(const Program&, const OpCall&)> attention = {};
  /// Returns whether the call of the product, instead of our kernels, computes this epilogue. Empty: never.
  std::function<bool(const ProductEpilogue&)> epilogue = {};
};

/// Lowers a function, which must be simplified and decomposed (ir::run_pipeline). Throws InternalError on an
/// op that has no lowering.
Program lower(const ir::Module& module, const ir::Function& function, const FuseOptions& options = {});

/// Returns the program as readable text: `rewire dump --stage fused`.
std::string print(const Program& program);
/// Returns the text of one kernel: the buffers that it reads and writes, and the ops that it computes.
std::string print_kernel(const Program& program, const KernelLaunch& launch, std::size_t member);

}  // namespace rewire::codegen
