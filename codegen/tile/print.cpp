// Prints a kernel: for people (with names and provenance), and as the identity of its machine code (with
// numbers only).
#include <fmt/format.h>

#include <iterator>

#include "codegen/tile/walk.h"

namespace rewire::codegen::tile {
namespace {

class Printer {
 public:
  Printer(const Kernel& kernel, bool with_names, Numbers numbers)
      : kernel_(kernel), with_names_(with_names), hides_numbers_(numbers == Numbers::hidden) {}

  std::string print() {
    header();
    section("prologue", kernel_.prologue);
    if (!kernel_.body.empty() || !kernel_.carried.empty()) {
      write("body:\n");
      for (const Carried& carried : kernel_.carried) {
        write("  carry {} = {} -> {}\n", typed(carried.entry), value(carried.initial), value(carried.last));
      }
      if (kernel_.bounds)
        write("  rows from {} to {}\n", value(kernel_.bounds->first), value(kernel_.bounds->end));
      nodes(kernel_.body);
      for (const Carried& carried : kernel_.carried) {
        write("  yield {} = {}\n", value(carried.entry), value(carried.next));
      }
    }
    section("epilogue", kernel_.epilogue);
    return std::move(text_);
  }

 private:
  template <class... Args>
  void write(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  std::string axis_name(std::size_t axis) const {
    return with_names_ ? kernel_.axes[axis].name : fmt::format("x{}", axis);
  }

  std::string argument_name(std::int32_t argument) const {
    return with_names_ ? kernel_.arguments[static_cast<std::size_t>(argument)].name
                       : fmt::format("a{}", argument);
  }

  std::string axis_list(AxisUse use) const {
    std::string list;
    for (std::size_t axis = 0; axis < kernel_.axes.size(); ++axis) {
      if (kernel_.axes[axis].use != use) continue;
      fmt::format_to(std::back_inserter(list), "{}{} {}", list.empty() ? "" : ", ", axis_name(axis),
                     kernel_.axes[axis].extent);
    }
    return list;
  }

  void header() {
    write("kernel {} outer ({}) rows ({}) / {} lanes ({})\n", with_names_ ? kernel_.name : "k",
          axis_list(AxisUse::outer), axis_list(AxisUse::row), kernel_.partitions, axis_list(AxisUse::lane));
    if (with_names_) {
      for (const std::string& line : kernel_.origin) write("  // {}\n", line);
    } else {
      order_of_axes();
    }
    for (const ShortTile& tile : kernel_.short_tiles)
      write("  {} of tiles {} of {}\n", tile.count, axis_name(static_cast<std::size_t>(tile.tile)),
            axis_name(static_cast<std::size_t>(tile.lane)));
    for (std::size_t i = 0; i < kernel_.arguments.size(); ++i) {
      const Argument& argument = kernel_.arguments[i];
      write("  {} {} {}\n",
            argument.use == ArgumentUse::read    ? "read"
            : argument.use == ArgumentUse::write ? "write"
                                                 : "read_write",
            ir::dtype_name(argument.dtype), argument_name(static_cast<std::int32_t>(i)));
    }
  }

  /// Prints the order of the axes. The header groups axes by use, but how the groups interleave is part of
  /// the identity too.
  void order_of_axes() {
    write("  axes");
    for (const Axis& axis : kernel_.axes) {
      write(" {}", axis.use == AxisUse::outer ? "outer" : axis.use == AxisUse::row ? "row" : "lane");
    }
    write("\n");
  }

  void section(std::string_view title, const std::vector<Node>& list) {
    if (list.empty()) return;
    write("{}:\n", title);
    nodes(list);
  }

  void nodes(const std::vector<Node>& list) {
    for (const Node& node : list) std::visit([&](const auto& n) { print_node(n); }, node);
  }

  static std::string value(TileValue v) { return fmt::format("%{}", v.id); }

  std::string typed(TileValue v) const {
    const ValueInfo& info = kernel_.values[static_cast<std::size_t>(v.id)];
    std::string text = fmt::format("%{} : {}", v.id, ir::dtype_name(info.dtype));
    for (std::size_t i = 0; i < info.lanes.size(); ++i) {
      text += i == 0 ? '(' : ',';
      text += axis_name(static_cast<std::size_t>(info.lanes[i]));
    }
    return info.lanes.empty() ? text : text + ")";
  }

  /// Returns the text of an index, "192 r + c + 64 part + 5": strides times axes, then the constant.
  std::string index_text(const Access& access) const {
    std::string text;
    const auto add = [&](std::int64_t stride, const std::string& name) {
      if (stride == 0) return;
      if (!text.empty()) text += " + ";
      if (stride != 1) text += fmt::format("{} ", stride);
      text += name;
    };
    for (std::size_t axis = 0; axis < access.strides.size(); ++axis)
      add(access.strides[axis], axis_name(axis));
    add(access.part_stride, "part");
    if (access.offset != 0 || text.empty())
      text += (text.empty() ? "" : " + ") + std::to_string(access.offset);
    return text;
  }

  void print_node(const Load& n) {
    write("  {} = {} {}[{}", typed(n.result), n.index ? "gather" : "load", argument_name(n.access.argument),
          index_text(n.access));
    if (n.index) write(" + {} clamp({}, {})", n.index_stride, value(n.index), n.index_limit);
    write("]\n");
  }

  void print_node(const Store& n) {
    write("  store {}[{}] = {}", argument_name(n.access.argument), index_text(n.access), value(n.value));
    if (n.predicate) write(" if {}", value(n.predicate));
    write("\n");
  }

  void print_node(const Pointwise& n) {
    write("  {} = {}", typed(n.result), ir::opcode_name(n.code));
    if (!n.direction.empty()) write(" {}", n.direction);
    for (std::size_t i = 0; i < n.operands.size(); ++i)
      write("{}{}", i == 0 ? " " : ", ", value(n.operands[i]));
    write("\n");
  }

  void print_node(const Constant& n) {
    write("  {} = constant {}\n", typed(n.result), hides_numbers_ ? 0 : n.value);
  }

  void print_node(const Index& n) {
    write("  {} = index {}\n", typed(n.result), axis_name(static_cast<std::size_t>(n.axis)));
  }

  void print_node(const Reduce& n) {
    write("  {} = {} {} over (", typed(n.result), n.kind == ReduceKind::sum ? "sum" : "max",
          value(n.operand));
    for (std::size_t i = 0; i < n.axes.size(); ++i) {
      write("{}{}", i == 0 ? "" : ",", axis_name(static_cast<std::size_t>(n.axes[i])));
    }
    write(")\n");
  }

  void print_node(const Dot& n) {
    write("  {} = dot {}, {} over {}\n", typed(n.result), value(n.a), value(n.b),
          axis_name(static_cast<std::size_t>(n.contract)));
  }

  void print_node(const Random& n) {
    const std::string stream = n.stream_low ? value(n.stream_low) + " " + value(n.stream_high)
                                            : fmt::format("{:#x}", hides_numbers_ ? 0 : n.stream);
    write("  {} = {} seed {}, step {}, stream {}, element [{}]\n", typed(n.result),
          n.normal ? "normal" : "uniform", value(n.seed), value(n.step), stream, index_text(n.element));
  }

  const Kernel& kernel_;
  const bool with_names_, hides_numbers_;
  std::string text_;
};

}  // namespace

std::string print(const Kernel& kernel) {
  return Printer(kernel, true, Numbers::shown).print();
}

std::string structure(const Kernel& kernel, Numbers numbers) {
  return Printer(kernel, false, numbers).print();
}

}  // namespace rewire::codegen::tile
