// The text of a program: `rewire dump --stage fused`.
#include <fmt/ranges.h>

#include "codegen/program.h"
#include "ir/ops/op_info.h"

namespace rewire::codegen {
namespace {

std::string view_text(const Program& program, const View& view) {
  const Buffer& buffer = program.buffers[static_cast<std::size_t>(view.buffer)];
  std::string text = fmt::format("{}:{}", view.buffer, buffer.name) +
                     ir::to_string(ir::TensorType{buffer.type.dtype, view.shape});
  if (view.offset != 0) text += fmt::format(" + {}", view.offset);
  if (view.strides != ir::row_major_strides(view.shape))
    text += fmt::format(" by {}", ir::to_string(view.strides));
  return text;
}

std::string_view kind_name(BufferKind kind) {
  switch (kind) {
    case BufferKind::argument:
      return "argument";
    case BufferKind::result:
      return "result";
    case BufferKind::state:
      return "state";
    case BufferKind::constant:
      return "constant";
    case BufferKind::temporary:
      return "temporary";
  }
  return "";
}

}  // namespace

std::string print(const Program& program) {
  std::string text = fmt::format("program {}\n", program.name);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    text +=
        fmt::format("  buffer {}:{} {} {}\n", i, buffer.name, kind_name(buffer.kind), to_string(buffer.type));
  }
  std::size_t group = 0;
  for (const Launch& launch : program.launches) {
    if (const auto* kernel = std::get_if<KernelLaunch>(&launch)) {
      text += fmt::format("  kernel {}", kernel->kernel.name);
      for (std::size_t i = 0; i < kernel->buffers.size(); ++i) {
        const auto buffer = static_cast<std::size_t>(kernel->buffers[i]);
        const tile::ArgumentUse use = kernel->kernel.arguments[i].use;
        text += fmt::format("{}{} {}:{}", i == 0 ? " (" : ", ",
                            use == tile::ArgumentUse::read    ? "in"
                            : use == tile::ArgumentUse::write ? "out"
                                                              : "inout",
                            buffer, program.buffers[buffer].name);
      }
      text += ")\n";
      if (group < program.groups.size() && kernel->kernel.name.rfind(program.groups[group].kernel, 0) == 0) {
        const GroupReport& report = program.groups[group++];
        text += fmt::format("    // reads {} B, writes {} B, {} flops{}{}\n", report.bytes_read,
                            report.bytes_written, report.flops,
                            report.stopped.empty() ? "" : "; stopped: ", report.stopped);
        for (const std::string& op : report.ops) text += fmt::format("    //   {}\n", op);
      }
    } else if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) {
      text += fmt::format("  gemm {} = {} x {}", view_text(program, gemm->c), view_text(program, gemm->a),
                          view_text(program, gemm->b));
      if (gemm->bias.buffer >= 0) text += " + " + view_text(program, gemm->bias);
      text += fmt::format("  // {}\n", gemm->location);
    } else if (const auto* host = std::get_if<HostLaunch>(&launch)) {
      text += fmt::format("  call {}", ir::describe(host->op));
      for (const View& view : host->results) text += " -> " + view_text(program, view);
      for (const View& view : host->operands) text += ", " + view_text(program, view);
      text += "\n";
    }
  }
  return text;
}

}  // namespace rewire::codegen
