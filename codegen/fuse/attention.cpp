// Binds attention's tile kernels to buffers; see attention.h.
#include "codegen/fuse/attention.h"

#include <algorithm>
#include <map>
#include <string>

#include "codegen/fuse/kernel_builder.h"
#include "codegen/tile/attention.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/attention.h"

namespace rewire::codegen {
namespace {

tile::AttentionView strides_of(const View& view) {
  return {view.offset, view.strides[0], view.strides[1], view.strides[2], view.strides[3]};
}

ir::DType dtype_of(const Program& program, const View& view) {
  return program.buffers[static_cast<std::size_t>(view.buffer)].type.dtype;
}

/// The views of a call's operands and results by the names of the kernels' arguments.
using Views = std::map<std::string, View>;

Views views_of(const OpCall& call) {
  const bool gradient = call.op.code == ir::Opcode::attention_grad;
  const std::vector<View>&in = call.operands, &out = call.results;
  Views views = {{"q", in[0]}, {"k", in[1]}, {"v", in[2]}};
  views.emplace("output", gradient ? in[3] : out[0]);
  views.emplace("lse", gradient ? in[4] : out[1]);
  if (gradient) {
    views.emplace("d_output", in[5]);
    views.emplace("dq", out[0]);
    views.emplace("dk", out[1]);
    views.emplace("dv", out[2]);
  }
  const ir::AttentionForm form = ir::attention_form(call.op);
  if (form.bias >= 0) views.emplace("bias", in[static_cast<std::size_t>(form.bias)]);
  if (form.documents >= 0) views.emplace("documents", in[static_cast<std::size_t>(form.documents)]);
  return views;
}

/// An axis of extent 1 is read for every index.
tile::AttentionView repeated(const View& view) {
  const auto stride = [&](std::size_t axis) { return view.shape[axis] == 1 ? 0 : view.strides[axis]; };
  return {view.offset, stride(0), stride(1), stride(2), stride(3)};
}

/// Returns the shape of an op on operands of these shapes, without the places of its arguments.
tile::AttentionShape shape_of(const ir::Op& op, ir::DType dtype, const ir::Shape& q, const ir::Shape& k,
                              const ir::Shape& v, const WorkGrain& grain) {
  const bool gradient = op.code == ir::Opcode::attention_grad;
  const ir::AttentionForm form = ir::attention_form(op);
  tile::AttentionShape shape;
  shape.batch = q[0], shape.heads = k[1], shape.groups = q[1] / k[1];
  shape.queries = q[2], shape.keys = k[2];
  shape.width = q[3], shape.value_width = v[3];
  shape.scale = op.attributes.get_double("scale");
  shape.causal = form.causal, shape.window = form.window;
  shape.dtype = dtype;
  constexpr std::int64_t kMostNarrow = 128;  // channels of a head: what registers and shared memory hold
  shape.narrow = shape.dtype == ir::DType::bf16 && grain.narrow_attention_elements > 0 &&
                 std::max(shape.width, shape.value_width) <= kMostNarrow;
  shape.tile_elements = grain.attention_elements;
  shape.adds_in_memory = grain.attention_adds_in_memory;
  if (shape.narrow) {
    shape.walked_tokens = grain.narrow_walked_tokens;
    shape.tile_elements = gradient ? grain.narrow_gradient_elements : grain.narrow_attention_elements;
    if (gradient) {
      shape.summed_width = grain.narrow_summed_width;
      shape.streamed_keys = grain.narrow_streamed_keys;
      shape.streamed_sums = grain.narrow_streamed_sums;
    }
  }
  return shape;
}

tile::AttentionShape shape_of(const Program& program, const OpCall& call, const Views& views,
                              const WorkGrain& grain) {
  const bool gradient = call.op.code == ir::Opcode::attention_grad;
  const View &q = views.at("q"), &k = views.at("k"), &v = views.at("v");
  const ir::AttentionForm form = ir::attention_form(call.op);
  tile::AttentionShape shape = shape_of(call.op, dtype_of(program, q), q.shape, k.shape, v.shape, grain);
  shape.q = strides_of(q), shape.k = strides_of(k), shape.v = strides_of(v);
  shape.output = strides_of(views.at("output")), shape.lse = strides_of(views.at("lse"));
  if (gradient) {
    shape.d_output = strides_of(views.at("d_output"));
    shape.dq = strides_of(views.at("dq"));
    shape.dk = strides_of(views.at("dk")), shape.dv = strides_of(views.at("dv"));
  }
  if (form.bias >= 0) shape.bias = repeated(views.at("bias"));
  if (form.documents >= 0) {
    const View& numbers = views.at("documents");
    shape.documents = tile::AttentionView{numbers.offset, numbers.strides[0], 0, numbers.strides[1], 0};
  }
  return shape;
}

// Binds arguments to buffers by name. The kernel and its arguments then get names from the program.
std::vector<KernelLaunch> launches_of(const Program& program, std::vector<tile::Kernel> kernels,
                                      const std::map<std::string, std::int32_t>& buffers,
                                      const std::string& location) {
  std::vector<KernelLaunch> launches;
  for (tile::Kernel& kernel : kernels) {
    KernelLaunch launch;
    for (tile::Argument& argument : kernel.arguments) {
      const auto buffer = buffers.find(argument.name);
      if (buffer == buffers.end())
        internal_error("attention's tile kernel has an unbound argument '{}'", argument.name);
      launch.buffers.push_back(buffer->second);
      argument.name = program.buffers[static_cast<std::size_t>(buffer->second)].name + "." + argument.name;
    }
    if (!location.empty()) kernel.name = kernel_identifier(location) + "_" + kernel.name;
    kernel.origin.insert(kernel.origin.begin(), "at " + location);
    launch.kernel = std::move(kernel);
    launches.push_back(std::move(launch));
  }
  return launches;
}

}  // namespace

bool sums_tokens(const ir::Function& function, const ir::Op& gradient, const WorkGrain& grain) {
  const ir::AttentionForm form = ir::attention_form(gradient);
  if (form.bias >= 0 || form.documents >= 0) return false;  // they may take the room on chip
  const auto shape = [&](std::size_t k) -> const ir::Shape& {
    return function.type(gradient.operands[k]).shape;
  };
  return tile::sums_tokens(
      shape_of(gradient, function.type(gradient.operands[0]).dtype, shape(0), shape(1), shape(2), grain));
}

std::vector<KernelLaunch> emit_attention(Program& program, const OpCall& call, const WorkGrain& grain,
                                         std::span<const PartialTokenSums> sums) {
  const Views views = views_of(call);
  tile::AttentionShape shape = shape_of(program, call, views, grain);
  std::map<std::string, std::int32_t> buffers;
  for (const PartialTokenSums& partial : sums) {
    for (const auto& [result, offset, head, channel] : partial.sums->columns) {
      std::optional<tile::AttentionView>& view = result == 0   ? shape.dq_sums
                                                 : result == 1 ? shape.dk_sums
                                                               : shape.dv_sums;
      view = {offset, partial.sums->width, head, 0, channel};
      buffers[result == 0 ? "dq_sums" : result == 1 ? "dk_sums" : "dv_sums"] = partial.buffer;
    }
  }
  std::vector<tile::Kernel> kernels = call.op.code == ir::Opcode::attention ? tile::attention_forward(shape)
                                                                            : tile::attention_backward(shape);
  for (const auto& [name, view] : views) buffers.emplace(name, view.buffer);
  const auto reads_sums = [](const tile::Kernel& kernel) {
    return std::ranges::any_of(kernel.arguments,
                               [](const auto& argument) { return argument.name == "delta"; });
  };
  if (std::ranges::any_of(kernels, reads_sums)) {
    buffers["delta"] = static_cast<std::int32_t>(program.buffers.size());
    program.buffers.push_back({call.op.location + ".delta",
                               BufferKind::temporary,
                               {ir::DType::f32, {shape.batch, shape.heads * shape.groups, shape.queries}},
                               {}});
  }
  return launches_of(program, std::move(kernels), buffers, call.op.location);
}

}  // namespace rewire::codegen
