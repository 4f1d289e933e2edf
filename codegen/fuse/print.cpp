// The text of a program: `rewire dump --stage fused`.
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <string_view>

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

std::string member_text(const Program& program, const KernelLaunch& launch, std::size_t member) {
  std::string text = fmt::format("{}  kernel {}", launch.is_table() ? "  " : "", launch.member_name(member));
  const std::vector<std::int32_t>& buffers = launch.member_buffers(member);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const tile::ArgumentUse use = launch.kernel.arguments[i].use;
    text += fmt::format("{}{} {}:{}", i == 0 ? " (" : ", ",
                        use == tile::ArgumentUse::read    ? "in"
                        : use == tile::ArgumentUse::write ? "out"
                                                          : "inout",
                        buffers[i], program.buffers[static_cast<std::size_t>(buffers[i])].name);
  }
  return text + ")\n";
}

std::string report_text(const GroupReport& report) {
  std::string text =
      fmt::format("    // reads {} B, writes {} B, {} flops{}{}\n", report.bytes_read, report.bytes_written,
                  report.flops, report.stopped.empty() ? "" : "; stopped: ", report.stopped);
  for (const std::string& op : report.ops) text += fmt::format("    //   {}\n", op);
  return text;
}

std::string buffer_text(const Program& program, std::size_t index) {
  const Buffer& buffer = program.buffers[index];
  return fmt::format("  buffer {}:{} {} {}\n", index, buffer.name, kind_name(buffer.kind),
                     to_string(buffer.type));
}

using Reports = std::map<std::string_view, const GroupReport*>;

/// Returns the program's reports by kernel name.
Reports reports_of(const Program& program) {
  Reports reports;
  for (const GroupReport& report : program.groups) reports.emplace(report.kernel, &report);
  return reports;
}

/// Returns the text of a kernel, and the report on its group.
std::string group_text(const Program& program, const KernelLaunch& launch, std::size_t member,
                       const Reports& reports) {
  const auto report = reports.find(launch.member_name(member));
  return member_text(program, launch, member) +
         (report == reports.end() ? std::string() : report_text(*report->second));
}

}  // namespace

std::string print_kernel(const Program& program, const KernelLaunch& launch, std::size_t member) {
  std::string text;
  const std::vector<std::int32_t>& buffers = launch.member_buffers(member);
  for (const std::int32_t buffer : std::set(buffers.begin(), buffers.end()))
    text += buffer_text(program, static_cast<std::size_t>(buffer));
  if (launch.is_table()) text += fmt::format("  table of {}, here its member {}\n", launch.members(), member);
  return text + group_text(program, launch, member, reports_of(program));
}

std::string print(const Program& program) {
  std::string text = fmt::format("program {}\n", program.name);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) text += buffer_text(program, i);
  const Reports reports = reports_of(program);
  for (const Launch& launch : program.launches) {
    if (const auto* kernel = std::get_if<KernelLaunch>(&launch)) {
      if (kernel->is_table()) text += fmt::format("  table of {}\n", kernel->members());
      for (std::size_t member = 0; member < kernel->members(); ++member)
        text += group_text(program, *kernel, member, reports);
    } else if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) {
      text += fmt::format("  gemm {} {} {} x {}", view_text(program, gemm->c), gemm->accumulate ? "+=" : "=",
                          view_text(program, gemm->a), view_text(program, gemm->b));
      const bool gradient = gemm->epilogue == GemmEpilogue::gelu_gradient;
      if (gemm->bias.buffer >= 0 && !gradient) text += " + " + view_text(program, gemm->bias);
      if (gemm->epilogue == GemmEpilogue::gelu) text += ", gelu";
      if (gemm->epilogue == GemmEpilogue::gelu && gemm->pre.buffer >= 0)
        text += fmt::format(" of {}, kept", view_text(program, gemm->pre));
      if (gradient)
        text += fmt::format(" gelu'({}), sum of rows {}", view_text(program, gemm->pre),
                            view_text(program, gemm->bias));
      text += fmt::format("  // {}\n", gemm->location);
    } else {
      const auto& call = std::get<OpCall>(launch);
      text += fmt::format("  call {}", ir::describe(call.op));
      for (const View& view : call.results) text += " -> " + view_text(program, view);
      for (const View& view : call.operands) text += ", " + view_text(program, view);
      text += "\n";
    }
  }
  return text;
}

}  // namespace rewire::codegen
