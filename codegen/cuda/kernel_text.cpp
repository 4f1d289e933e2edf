// Names, addresses and heads of kernels; see kernel_text.h.
#include "codegen/cuda/kernel_text.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "codegen/cuda/names.h"
#include "codegen/tile/walk.h"

namespace rewire::codegen::cuda {
namespace {

using tile::AxisUse;

constexpr std::size_t kMemberLine = 100;   // columns of a comment line
constexpr std::int64_t kPacketBytes = 16;  // the widest access, and the alignment of arguments

std::string extents_of(const tile::Kernel& kernel, AxisUse use) {
  std::string text;
  for (const tile::Axis& axis : kernel.axes) {
    if (axis.use == use) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", axis.name, axis.extent);
  }
  return text;
}

/// Returns the bytes read and the bytes written. Each distinct window of an argument counts once.
std::pair<std::int64_t, std::int64_t> bytes_moved(const tile::Kernel& kernel) {
  std::set<std::tuple<bool, std::int32_t, std::int64_t, std::int64_t, std::vector<std::int64_t>>> windows;
  std::pair<std::int64_t, std::int64_t> bytes;
  visit_nodes(kernel, [&](const tile::Node& node) {
    const tile::Access* access = tile::access_of(node);
    if (access == nullptr || std::holds_alternative<tile::Random>(node)) return;
    const bool write = std::holds_alternative<tile::Store>(node);
    if (!windows.insert({write, access->argument, access->offset, access->part_stride, access->strides})
             .second)
      return;
    std::int64_t count = access->part_stride != 0 ? kernel.partitions : 1;
    for (std::size_t axis = 0; axis < kernel.axes.size(); ++axis) {
      if (access->strides[axis] != 0) count *= kernel.axes[axis].extent;
    }
    const auto dtype = kernel.arguments[static_cast<std::size_t>(access->argument)].dtype;
    (write ? bytes.second : bytes.first) += count * static_cast<std::int64_t>(ir::dtype_bytes(dtype));
  });
  return bytes;
}

std::int64_t flops_of(const tile::Kernel& kernel) {
  std::int64_t flops = 0;
  const auto section = [&](const std::vector<tile::Node>& nodes, std::int64_t times) {
    for (const tile::Node& node : nodes) {
      const std::int64_t points = times * extent_of(kernel, tile::iteration_lanes(kernel, node));
      if (std::holds_alternative<tile::Dot>(node)) flops += 2 * points;
      if (std::holds_alternative<tile::Pointwise>(node) || std::holds_alternative<tile::Reduce>(node))
        flops += points;
    }
  };
  section(kernel.prologue, kernel.instances());
  section(kernel.body, kernel.row_visits());
  section(kernel.epilogue, kernel.instances());
  return flops;
}

std::string amount(std::int64_t count, const char* unit) {
  const auto value = static_cast<double>(count);
  if (count >= 1000000000) return fmt::format("{:.3g} G{}", value / 1e9, unit);
  if (count >= 1000000) return fmt::format("{:.3g} M{}", value / 1e6, unit);
  if (count >= 1000) return fmt::format("{:.3g} k{}", value / 1e3, unit);
  return fmt::format("{} {}", count, unit);
}

}  // namespace

std::int64_t extent_of(const tile::Kernel& kernel, const std::vector<std::int32_t>& axes) {
  std::int64_t product = 1;
  for (std::int32_t axis : axes) product *= kernel.axes[static_cast<std::size_t>(axis)].extent;
  return product;
}

std::vector<std::int32_t> axes_of(const tile::Kernel& kernel, AxisUse use) {
  std::vector<std::int32_t> axes;
  for (std::size_t axis = 0; axis < kernel.axes.size(); ++axis) {
    if (kernel.axes[axis].use == use) axes.push_back(static_cast<std::int32_t>(axis));
  }
  return axes;
}

bool walks_parts(const tile::Kernel& kernel) {
  if (!kernel.carried.empty() || !kernel.epilogue.empty()) return true;
  if (kernel.partitions == 1) return false;
  for (const auto* section : {&kernel.prologue, &kernel.body}) {
    for (const tile::Node& node : *section) {
      const tile::Access* access = tile::access_of(node);
      if (access != nullptr && access->part_stride != 0) return true;
    }
  }
  return false;
}

bool is_read_only(const tile::Kernel& kernel, const tile::Access& access) {
  return kernel.arguments[static_cast<std::size_t>(access.argument)].use == tile::ArgumentUse::read;
}

std::string Terms::text(bool wide) const {
  std::string text;
  for (const auto& [stride, name] : products) {
    if (stride == 0) continue;
    const bool minus = stride < 0;
    if (!text.empty()) {
      text += minus ? " - " : " + ";
    } else if (minus) {
      text += "-";
    }
    const std::int64_t size = minus ? -stride : stride;
    if (size != 1) text += fmt::format("{}{} * ", size, wide ? "LL" : "");
    text += size == 1 && wide ? fmt::format("i64({})", name) : name;
  }
  if (text.empty()) return std::to_string(offset);
  if (offset != 0) text += fmt::format(" {} {}", offset < 0 ? '-' : '+', offset < 0 ? -offset : offset);
  return text;
}

KernelText::KernelText(const tile::Kernel& kernel, EntryPoint entry)
    : kernel_(kernel),
      entry_(std::move(entry)),
      arguments_(argument_names(kernel)),
      values_(value_names(kernel, arguments_)) {}

Terms KernelText::terms(const tile::Access& access, bool lanes) const {
  Terms terms{access.offset, {}};
  for (std::size_t i = 0; i < access.strides.size(); ++i) {
    const tile::Axis& axis = kernel_.axes[i];
    if (axis.extent > 1 && (lanes || axis.use != AxisUse::lane))
      terms.products.emplace_back(access.strides[i], axis.name);
  }
  if (kernel_.partitions > 1) terms.products.emplace_back(access.part_stride, "part");
  return terms;
}

std::int64_t KernelText::packet_of(const tile::Access& access, std::int32_t lane) const {
  if (access.strides[static_cast<std::size_t>(lane)] != 1 || wide(access)) return 0;
  std::int64_t packet = std::gcd(kPacketBytes / ir::dtype_bytes(stored_dtype(access)), axis(lane).extent);
  packet = std::gcd(packet, std::gcd(access.offset, access.part_stride));
  for (std::size_t other = 0; other < access.strides.size(); ++other) {
    if (static_cast<std::int32_t>(other) != lane) packet = std::gcd(packet, access.strides[other]);
  }
  return packet;
}

bool KernelText::wide(const tile::Access& access) const {
  std::int64_t most = std::abs(access.offset) + std::abs(access.part_stride) * kernel_.partitions;
  for (std::size_t i = 0; i < access.strides.size(); ++i)
    most += std::abs(access.strides[i]) * (kernel_.axes[i].extent - 1);
  return most > std::numeric_limits<std::int32_t>::max();
}

std::string KernelText::pointer(const tile::Access& access) const {
  const std::string index = outer_index(access);
  return index == "0" ? argument(access.argument) : argument(access.argument) + " + " + index;
}

std::string KernelText::gathered(const tile::Load& load, const Expression& index) const {
  const Expression at = cast_expression(index, info(load.index).dtype, ir::DType::i64);
  return fmt::format("{}clamped({}, {})",
                     load.index_stride == 1 ? "" : fmt::format("{}LL * ", load.index_stride), at.text,
                     load.index_limit);
}

Expression KernelText::immediate(const tile::Node& node) const {
  if (const auto* constant = std::get_if<tile::Constant>(&node)) {
    const std::string text = literal(constant->value, info(constant->result).dtype);
    return {text, text[0] == '-' ? Binding::sign : Binding::value};
  }
  const auto& index = std::get<tile::Index>(node);
  const ir::DType dtype = info(index.result).dtype;
  const tile::Axis& of = axis(index.axis);
  if (of.extent == 1) return {literal(0, dtype)};
  return cast_expression({of.name}, ir::DType::i32, dtype);
}

Expression KernelText::loaded(const tile::Load& load, const std::string& index) const {
  const std::string element = fmt::format("{}[{}]", argument(load.access.argument), index);
  const std::string_view computed = type(load.result);
  if (storage_type(stored_dtype(load.access)) == computed) return {element};
  return {fmt::format("convert<{}>({})", computed, element)};
}

std::string KernelText::draw_key(const tile::Random& random,
                                 const std::function<Expression(tile::TileValue)>& read) {
  const std::string seed = read(random.seed).text, step = read(random.step).text;
  if (!random.stream_low) return fmt::format("{}, {}, {:#x}ull", seed, step, random.stream);
  const std::string low = read(random.stream_low).text, high = read(random.stream_high).text;
  return fmt::format("{}, {}, u64({}) | u64({}) << 32", seed, step, low, high);
}

Expression KernelText::drawn(const tile::Random& random, const std::string& key, const std::string& element) {
  return {fmt::format("{}(philox({}, {}), {})", random.normal ? "normal" : "uniform", key, element, element)};
}

std::string KernelText::stored(const tile::Store& store, const Expression& value,
                               const std::string& when) const {
  const std::string_view storage = storage_type(stored_dtype(store.access));
  return fmt::format(
      "{}{}[{}] = {};", when.empty() ? "" : fmt::format("if ({}) ", when), argument(store.access.argument),
      element_index(store.access),
      type(store.value) == storage ? value.text : fmt::format("convert<{}>({})", storage, value.text));
}

std::string KernelText::first_of_same(const tile::Access& access,
                                      const std::vector<std::int32_t>& lanes) const {
  std::string text;
  for (std::int32_t lane : lanes) {
    if (access.strides[static_cast<std::size_t>(lane)] == 0 && axis(lane).extent > 1)
      text = conjunction({text, axis(lane).name + " == 0"});
  }
  return text;
}

void KernelText::head(Lines& lines, const LaunchShape& launch, int resident_blocks, const std::string& how) {
  lines.line("// {}", kernel_.name);
  std::string shape;
  for (const auto& [use, word] : {std::pair{AxisUse::outer, "outer"}, std::pair{AxisUse::row, "rows"},
                                  std::pair{AxisUse::lane, "lanes"}}) {
    const std::string extents = extents_of(kernel_, use);
    if (!extents.empty()) shape += fmt::format("{}{} ({})", shape.empty() ? "" : "  ", word, extents);
  }
  if (kernel_.partitions > 1) shape += fmt::format("  in {} parts", kernel_.partitions);
  if (!shape.empty()) lines.line("// {}", shape);
  for (std::size_t i = 0; i < kernel_.origin.size();) {  // prints repeated lines once, with their count
    std::size_t same = i;
    while (same < kernel_.origin.size() && kernel_.origin[same] == kernel_.origin[i]) ++same;
    lines.line("//   {}{}", kernel_.origin[i], same - i > 1 ? fmt::format(" ({} times)", same - i) : "");
    i = same;
  }
  const auto [read, written] = bytes_moved(kernel_);
  lines.line("// reads {}, writes {}, {}; {} block{} of {} threads{}", amount(read, "B"),
             amount(written, "B"), amount(flops_of(kernel_), "flop"), launch.blocks,
             launch.blocks == 1 ? "" : "s", launch.threads,
             launch.shared_bytes > 0 ? ", " + amount(launch.shared_bytes, "B") + " shared" : "");
  if (!how.empty()) lines.line("// {}", how);
  declaration_ = fmt::format("extern \"C\" __global__ void __launch_bounds__({}, {}) {}(", launch.threads,
                             resident_blocks, symbol());
  if (entry_.members.empty()) {
    lines.line("{}", declaration_);
  } else {
    describe_table(lines);
    lines.line("REWIRE_DEVICE void {}_member(", symbol());
  }
  for (std::size_t i = 0; i < kernel_.arguments.size(); ++i) {
    const tile::Argument& argument = kernel_.arguments[i];
    lines.line("    {}{}* __restrict__ {}{}", argument.use == tile::ArgumentUse::read ? "const " : "",
               storage_type(argument.dtype), arguments_[i], i + 1 == kernel_.arguments.size() ? ") {" : ",");
  }
  if (kernel_.arguments.empty()) lines.line("    ) {{");
}

void KernelText::describe_table(Lines& lines) const {
  lines.line("// a table of {}; the arguments bear the names of the first member's", entry_.members.size());
  std::string text;
  for (std::size_t i = 0; i < entry_.members.size(); ++i) {
    const std::string next = entry_.members[i] + (i + 1 == entry_.members.size() ? "" : ",");
    if (!text.empty() && text.size() + next.size() > kMemberLine) {
      lines.line("//  {}", text);
      text.clear();
    }
    text += " " + next;
  }
  lines.line("//  {}", text);
}

void KernelText::foot(Lines& lines) const {
  lines.indent(-1);
  lines.line("}}");
  if (entry_.members.empty()) return;
  lines.open("{}void* const* __restrict__ table)", declaration_);
  lines.line("void* const* const member = table + {} * blockIdx.y;", kernel_.arguments.size());
  lines.line("{}_member(", symbol());
  for (std::size_t i = 0; i < kernel_.arguments.size(); ++i) {
    const tile::Argument& argument = kernel_.arguments[i];
    lines.line("    static_cast<{}{}*>(member[{}]){}",
               argument.use == tile::ArgumentUse::read ? "const " : "", storage_type(argument.dtype), i,
               i + 1 == kernel_.arguments.size() ? ");" : ",");
  }
  lines.close();
}

void KernelText::declare_indices(Lines& lines, AxisUse use, const std::string& linear) const {
  const std::vector<std::int32_t> axes = axes_of(kernel_, use);
  std::int64_t below = extent_of(kernel_, axes);
  const char* type = below > std::numeric_limits<std::int32_t>::max() ? "i64" : "int";
  const std::int64_t all = below;
  for (std::int32_t index : axes) {
    const tile::Axis& of = axis(index);
    below /= of.extent;
    if (of.extent == 1) continue;
    if (linear == of.name) continue;
    std::string text = linear;
    if (below > 1) text += fmt::format(" / {}", below);
    if (below * of.extent != all) text += fmt::format(" % {}", of.extent);
    lines.line("const {} {} = {};", type, of.name, text);
  }
}

}  // namespace rewire::codegen::cuda
