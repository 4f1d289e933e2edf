#include "codegen/fuse/launches.h"

#include <algorithm>

#include "codegen/fuse/attention.h"
#include "codegen/fuse/emit.h"
#include "codegen/fuse/grouping.h"
#include "codegen/fuse/plain_kernels.h"
#include "codegen/fuse/ranked_scatter.h"
#include "codegen/fuse/storage.h"
#include "codegen/lowering_steps.h"
#include "codegen/program.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"

namespace rewire::codegen {
namespace {

using ir::Op;
using ir::Opcode;
using ir::Shape;
using ir::Value;

class Lowering {
 public:
  Lowering(Prepared prepared, const FuseOptions& options)
      : grouping_(std::move(prepared), options),
        storage_(grouping_, grouping_.module(), program_),
        grain_(options.grain),
        library_computes_(options.attention) {
    program_.name = function().name;
  }

  /// Returns whether a library computes an attention_grad that should also give sums over tokens, so the
  /// program lacks them.
  bool lacks_sums() const { return lacks_sums_; }

  Program run() {
    for (int index : grouping_.execution_order()) {
      const GroupNode& node = grouping_.nodes()[static_cast<std::size_t>(index)];
      if (storage_.is_elided(index)) continue;
      if (node.opaque) {
        emit_call(index, node);
      } else {
        emit_kernel(node);
      }
    }
    number_kernels();
    return std::move(program_);
  }

 private:
  const ir::Function& function() const { return grouping_.function(); }

  void emit_kernel(const GroupNode& node) {
    EmittedGroup group = emit_group(grouping_, storage_, node, program_, grain_);
    group.report.stopped = node.stopped;
    program_.groups.push_back(std::move(group.report));
    program_.launches.push_back(std::move(group.kernel));
    for (KernelLaunch& finish : group.finish) program_.launches.push_back(std::move(finish));
  }

  View operand_view(const GroupNode& node, std::size_t k, const Shape& shape) const {
    const Source& source = node.operands[k];
    const View& home = storage_.view(source.root);
    const Affine linear =
        source.linear ? source.map[0] : strided_index(source.map, home.offset, home.strides);
    View view{home.buffer, linear.offset, shape, Shape(shape.size(), 0)};
    for (const auto& [axis, stride] : linear.terms) view.strides[static_cast<std::size_t>(axis)] = stride;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) view.strides[d] = 1;
    }
    return view;
  }

  View operand_view(const GroupNode& node, std::size_t k) const {
    const Op& op = function().body[static_cast<std::size_t>(node.op)];
    return operand_view(node, k, function().type(op.operands[k]).shape);
  }

  void emit_call(int index, const GroupNode& node) {
    const Op& op = function().body[static_cast<std::size_t>(node.op)];
    const ir::DType dtype = op.operands.empty() ? ir::DType::f32 : function().type(op.operands[0]).dtype;
    if (op.code == Opcode::concat) {
      for (const Storage::Copy& copy : storage_.concat_copies(index)) {
        program_.launches.push_back(emit_copy(program_, copy.from, copy.to, op.location, grain_));
      }
    } else if (op.code == Opcode::matmul && grouping_.is_product_type(dtype)) {
      emit_gemm(node, op);
    } else {
      OpCall call{op, {}, {}};
      for (std::size_t k = 0; k < op.operands.size(); ++k) call.operands.push_back(operand_view(node, k));
      for (Value result : op.results) call.results.push_back(storage_.view(result));
      const bool has_kernels = is_attention(op) && (dtype == ir::DType::f32 || dtype == ir::DType::bf16);
      if (has_kernels && !(library_computes_ && library_computes_(program_, call))) {
        emit_attention_kernels(node, call);
      } else if (is_ranked_scatter(function(), op, grain_)) {
        for (KernelLaunch& launch : emit_ranked_scatter(program_, call, grain_))
          program_.launches.push_back(std::move(launch));
      } else {
        lacks_sums_ = lacks_sums_ || !node.sums.empty();
        program_.launches.push_back(std::move(call));
      }
    }
  }

  static bool is_attention(const Op& op) {
    return op.code == Opcode::attention || op.code == Opcode::attention_grad;
  }

  void emit_attention_kernels(const GroupNode& node, const OpCall& call) {
    const std::int64_t batch = call.operands[0].shape[0];
    std::vector<PartialTokenSums> partials;
    for (const TokenSums& sums : node.sums) {
      const std::string& location = function().body[static_cast<std::size_t>(sums.op)].location;
      partials.push_back(
          {&sums, storage_.add_temporary(location + ".partials", {ir::DType::f32, {batch, sums.width}})});
    }
    for (KernelLaunch& launch : emit_attention(program_, call, grain_, partials))
      program_.launches.push_back(std::move(launch));
    for (const auto& [sums, buffer] : partials) {
      const Op& sum = function().body[static_cast<std::size_t>(sums->op)];
      program_.launches.push_back(emit_finish(program_, sum, buffer, batch, storage_.view(sum.results[0])));
    }
  }

  // Emits c [batch…, m, n] = a [batch…, m, k] b [batch…, k, n]. Leading axes become rows of a if one b
  // serves them all.
  void emit_gemm(const GroupNode& node, const Op& op) {
    GemmLaunch gemm;
    gemm.location = op.location;
    gemm.a = operand_view(node, 0);
    gemm.b = operand_view(node, 1);
    if (op.attributes.has("transpose_a") && op.attributes.get_bool("transpose_a")) swap_last(gemm.a);
    if (op.attributes.has("transpose_b") && op.attributes.get_bool("transpose_b")) swap_last(gemm.b);
    const auto is_constant = [&](const View& view) {
      return program_.buffers[static_cast<std::size_t>(view.buffer)].kind == BufferKind::constant;
    };
    gemm.exact = is_constant(gemm.a) || is_constant(gemm.b);
    gemm.c =
        storage_.view(node.epilogue >= 0 ? function().body[static_cast<std::size_t>(node.epilogue)].results[0]
                                         : op.results[0]);
    gemm.epilogue = node.kind;
    const bool gradient = node.kind == GemmEpilogue::gelu_gradient;
    if (node.accumulates) {
      gemm.accumulate = true;
      const View& sum = storage_.view(node.operands[2].root);
      if (sum != gemm.c) program_.launches.push_back(emit_copy(program_, sum, gemm.c, op.location, grain_));
    } else if (node.operands.size() > 2 && !gradient)
      gemm.bias = bias_for(gemm.c, bias_view(node), op);
    const bool shared_b = gemm.b.shape.size() == 2;
    if (shared_b) {
      merge_rows(gemm.a, gemm.c);
    }
    merge_batch(gemm);
    const auto other = [&] {
      return storage_.view(function().body[static_cast<std::size_t>(node.other)].results[0]);
    };
    if (node.kind == GemmEpilogue::gelu && node.other >= 0) gemm.pre = like(gemm.c, other());
    if (!gradient) {
      program_.launches.push_back(std::move(gemm));
      return;
    }
    gemm.pre = like(gemm.c, storage_.view(node.operands[2].root));
    emit_gradient(std::move(gemm), other());
  }

  // Returns `dense`, which has as many elements as c, in the layout of c's rows.
  static View like(const View& c, const View& dense) {
    if (c.strides != ir::row_major_strides(c.shape) ||
        ir::element_count(c.shape) != ir::element_count(dense.shape))
      internal_error("the result of a product with an epilogue is not dense");
    return {dense.buffer, dense.offset, c.shape, c.strides};
  }

  // Emits a product with GELU's gradient. The call writes the sum of the rows in c's dtype, side by side
  // from a multiple of 16 bytes.
  void emit_gradient(GemmLaunch gemm, const View& wanted) {
    constexpr std::int64_t kAlignment = 16;
    const ir::TensorType type{dtype_of(gemm.c), {ir::element_count(wanted.shape)}};
    const auto bytes = static_cast<std::int64_t>(ir::dtype_bytes(type.dtype));
    const View sum{wanted.buffer, wanted.offset, type.shape, {wanted.strides.back()}};
    gemm.bias = sum;
    const bool takes =
        dtype_of(sum) == type.dtype && sum.strides[0] == 1 && sum.offset * bytes % kAlignment == 0;
    if (!takes) gemm.bias = {storage_.add_temporary(gemm.location + ".bias", type), 0, type.shape, {1}};
    const View written = gemm.bias;
    const std::string location = gemm.location;
    program_.launches.push_back(std::move(gemm));
    if (!takes) program_.launches.push_back(emit_copy(program_, written, sum, location, grain_));
  }

  ir::DType dtype_of(const View& view) const {
    return program_.buffers[static_cast<std::size_t>(view.buffer)].type.dtype;
  }

  View bias_view(const GroupNode& node) const {
    View view = storage_.view(node.operands[2].root);
    view.shape = {ir::element_count(view.shape)};
    view.strides = {1};
    return view;
  }

  // Returns the bias, or a copy in the result's dtype if the library takes no other.
  View bias_for(const View& c, const View& bias, const Op& op) {
    if (!grain_.bias_like_result || dtype_of(bias) == dtype_of(c)) return bias;
    const std::int32_t buffer = storage_.add_temporary(op.location + ".bias", {dtype_of(c), bias.shape});
    const View copy{buffer, 0, bias.shape, {1}};
    program_.launches.push_back(emit_copy(program_, bias, copy, op.location, grain_));
    return copy;
  }

  static void swap_last(View& view) {
    const std::size_t rank = view.shape.size();
    std::swap(view.shape[rank - 1], view.shape[rank - 2]);
    std::swap(view.strides[rank - 1], view.strides[rank - 2]);
  }

  // Merges [b, m, k] into [b m, k] if the strides of both a and c allow it.
  static void merge_rows(View& a, View& c) {
    while (a.shape.size() > 2) {
      const std::size_t m = a.shape.size() - 2;
      const auto merges = [&](const View& v) {
        return v.shape[m - 1] == 1 || v.shape[m] == 1 || v.strides[m - 1] == v.strides[m] * v.shape[m];
      };
      if (!merges(a) || !merges(c)) return;
      for (View* v : {&a, &c}) {
        const std::int64_t stride = v->shape[m] == 1 ? v->strides[m - 1] : v->strides[m];
        v->shape[m] *= v->shape[m - 1];
        v->strides[m] = stride;
        v->shape.erase(v->shape.begin() + static_cast<std::ptrdiff_t>(m) - 1);
        v->strides.erase(v->strides.begin() + static_cast<std::ptrdiff_t>(m) - 1);
      }
    }
  }

  // Gives all three matrices the same leading axes (with a stride of 0 where a or b repeats).
  static void merge_batch(GemmLaunch& gemm) {
    const std::size_t rank = gemm.c.shape.size();
    for (View* v : {&gemm.a, &gemm.b}) {
      while (v->shape.size() < rank) {
        const std::size_t missing = rank - v->shape.size() - 1;
        v->shape.insert(v->shape.begin(), gemm.c.shape[missing]);
        v->strides.insert(v->strides.begin(), 0);
      }
    }
  }

  // Numbers kernels of the same name. Reports are in the order of their kernels, and follow their names.
  void number_kernels() {
    std::map<std::string, int> seen;
    std::size_t next = 0;
    for (Launch& launch : program_.launches) {
      if (auto* kernel = std::get_if<KernelLaunch>(&launch)) {
        const bool reported =
            next < program_.groups.size() && program_.groups[next].kernel == kernel->kernel.name;
        const int count = seen[kernel->kernel.name]++;
        if (count > 0) kernel->kernel.name += fmt::format("_{}", count + 1);
        if (reported) program_.groups[next++].kernel = kernel->kernel.name;
      }
    }
  }

  Program program_;
  Grouping grouping_;
  Storage storage_;
  const WorkGrain grain_;
  const std::function<bool(const Program&, const OpCall&)>& library_computes_;
  bool lacks_sums_ = false;
};

}  // namespace

Program make_launches(Prepared prepared, const FuseOptions& options) {
  if (!options.attention || !options.does(kTokenSums)) return Lowering(std::move(prepared), options).run();
  Lowering lowering(prepared, options);
  Program program = lowering.run();
  if (!lowering.lacks_sums()) return program;
  FuseOptions without = options;
  without.left_out.insert(std::string(kTokenSums));
  return Lowering(std::move(prepared), without).run();
}

}  // namespace rewire::codegen
