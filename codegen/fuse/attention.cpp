// Binds attention's tile kernels to buffers; see attention.h.
#include "codegen/fuse/attention.h"

#include <map>

#include "codegen/fuse/kernel_builder.h"
#include "codegen/tile/attention.h"
#include "ir/error.h"

namespace rewire::codegen {
namespace {

tile::AttentionView strides_of(const View& view) {
  return {view.offset, view.strides[0], view.strides[1], view.strides[2], view.strides[3]};
}

tile::AttentionShape shape_of(ir::DType dtype, const View& q, const View& k, const View& v,
                              const View& output, const View& lse, double scale, const WorkGrain& grain) {
  tile::AttentionShape shape;
  shape.batch = q.shape[0], shape.heads = q.shape[1], shape.queries = q.shape[2], shape.width = q.shape[3];
  shape.keys = k.shape[2];
  shape.scale = scale;
  shape.dtype = dtype;
  shape.narrow = dtype == ir::DType::bf16 && grain.narrow_attention_elements > 0;
  shape.tile_elements = shape.narrow ? grain.narrow_attention_elements : grain.attention_elements;
  shape.q = strides_of(q), shape.k = strides_of(k), shape.v = strides_of(v);
  shape.output = strides_of(output), shape.lse = strides_of(lse);
  return shape;
}

ir::DType dtype_of(const Program& program, const View& view) {
  return program.buffers[static_cast<std::size_t>(view.buffer)].type.dtype;
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

std::vector<KernelLaunch> emit_attention(const Program& program, std::span<const View> operands,
                                         std::span<const View> results, double scale,
                                         const std::string& location, const WorkGrain& grain) {
  const tile::AttentionShape shape = shape_of(dtype_of(program, operands[0]), operands[0], operands[1],
                                              operands[2], results[0], results[1], scale, grain);
  return launches_of(program, tile::attention_forward(shape),
                     {{"q", operands[0].buffer},
                      {"k", operands[1].buffer},
                      {"v", operands[2].buffer},
                      {"output", results[0].buffer},
                      {"lse", results[1].buffer}},
                     location);
}

std::vector<KernelLaunch> emit_attention_grad(Program& program, std::span<const View> operands,
                                              std::span<const View> results, double scale,
                                              const std::string& location, const WorkGrain& grain) {
  tile::AttentionShape shape = shape_of(dtype_of(program, operands[0]), operands[0], operands[1], operands[2],
                                        operands[3], operands[4], scale, grain);
  if (shape.narrow) {
    shape.tile_elements = grain.narrow_gradient_elements;
    shape.summed_width = grain.narrow_summed_width;
  }
  shape.d_output = strides_of(operands[5]);
  shape.dq = strides_of(results[0]), shape.dk = strides_of(results[1]), shape.dv = strides_of(results[2]);
  std::vector<tile::Kernel> kernels = tile::attention_backward(shape);
  std::map<std::string, std::int32_t> buffers = {
      {"q", operands[0].buffer},      {"k", operands[1].buffer},   {"v", operands[2].buffer},
      {"output", operands[3].buffer}, {"lse", operands[4].buffer}, {"d_output", operands[5].buffer},
      {"dq", results[0].buffer},      {"dk", results[1].buffer},   {"dv", results[2].buffer}};
  if (kernels.size() > 1) {
    buffers["delta"] = static_cast<std::int32_t>(program.buffers.size());
    program.buffers.push_back({location + ".delta",
                               BufferKind::temporary,
                               {ir::DType::f32, {shape.batch, shape.heads, shape.queries}},
                               {}});
  }
  return launches_of(program, std::move(kernels), buffers, location);
}

}  // namespace rewire::codegen
