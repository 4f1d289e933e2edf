// What all forms of a kernel (rows.h, transposes.h, blocks.h) are written with: lines of text, the kernel's
// names, its addresses, the comment at its head.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/expression.h"
#include "codegen/tile/tile.h"

namespace rewire::codegen::cuda {

/// Lines with indentation.
class Lines {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_.append(2 * static_cast<std::size_t>(depth_), ' ');
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }
  /// Opens a block: "for (…) {".
  template <class... Args>
  void open(fmt::format_string<Args...> format, Args&&... args) {
    line("{} {{", fmt::format(format, std::forward<Args>(args)...));
    ++depth_;
  }
  void close() {
    --depth_;
    line("}}");
  }
  /// At the margin, whatever the depth: "#pragma unroll".
  void directive(std::string_view text) {
    text_ += text;
    text_ += '\n';
  }
  void indent(int by) { depth_ += by; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  int depth_ = 0;
};

/// A sum of products for an index: strides times names.
struct Terms {
  std::int64_t offset = 0;
  std::vector<std::pair<std::int64_t, std::string>> products;

  /// "192 * r1 + c0 + 5"; `wide`: in 64 bits.
  std::string text(bool wide) const;
};

/// How a launch finds a kernel: by its arguments, or as the members of a table.
struct EntryPoint {
  std::string symbol;
  std::vector<std::string> members;  // their names; none: no table
};

class KernelText {
 public:
  KernelText(const tile::Kernel& kernel, EntryPoint entry);

  const tile::Kernel& kernel() const { return kernel_; }
  const std::string& symbol() const { return entry_.symbol; }
  const std::string& argument(std::int32_t index) const {
    return arguments_[static_cast<std::size_t>(index)];
  }
  const std::string& name(tile::TileValue value) const { return values_[static_cast<std::size_t>(value.id)]; }
  const tile::ValueInfo& info(tile::TileValue value) const {
    return kernel_.values[static_cast<std::size_t>(value.id)];
  }
  const tile::Axis& axis(std::int32_t index) const { return kernel_.axes[static_cast<std::size_t>(index)]; }
  ir::DType stored_dtype(const tile::Access& access) const {
    return kernel_.arguments[static_cast<std::size_t>(access.argument)].dtype;
  }
  std::string_view type(tile::TileValue value) const { return arithmetic_type(info(value).dtype); }

  /// The element index of an access: without its lane axes, and with them as variables of their names.
  std::string outer_index(const tile::Access& access) const {
    return terms(access, false).text(wide(access));
  }
  std::string element_index(const tile::Access& access) const {
    return terms(access, true).text(wide(access));
  }
  /// "x + 192 * r1": where the lanes of an access begin.
  std::string pointer(const tile::Access& access) const;
  /// How many neighbours along `lane` lie as a packet that is aligned to its size: 16 bytes at most; 0: none.
  std::int64_t packet_of(const tile::Access& access, std::int32_t lane) const;
  /// Whether an element index may leave 32 bits.
  bool wide(const tile::Access& access) const;
  /// "192LL * clamped(index, 50)": what a computed index adds to the address of a load.
  std::string gathered(const tile::Load& load, const Expression& index) const;

  /// A constant, or the index along an axis by its variable.
  Expression immediate(const tile::Node& node) const;
  /// The element of a load at `index`, in the type that is computed in.
  Expression loaded(const tile::Load& load, const std::string& index) const;
  /// "seed, step, stream": what all numbers of a node are drawn with. `read`: the expression of a scalar.
  static std::string draw_key(const tile::Random& random,
                              const std::function<Expression(tile::TileValue)>& read);
  /// A number of a stream's; `element`: which of them.
  static Expression drawn(const tile::Random& random, const std::string& key, const std::string& element);
  /// "if (when) y[c0] = convert<bf16>(x);" for the element that the axes in scope stand for.
  std::string stored(const tile::Store& store, const Expression& value, const std::string& when) const;
  /// The condition under which one of the elements that would store the same does so: the first, of lanes
  /// that the access does not know.
  std::string first_of_same(const tile::Access& access, const std::vector<std::int32_t>& lanes) const;

  /// The comment above a kernel and the lines up to its opening brace. `resident_blocks`: for how many of a
  /// multiprocessor registers must suffice.
  void head(Lines& lines, const LaunchShape& launch, int resident_blocks, const std::string& how);
  /// The closing brace, and for a table the kernel that finds a block's member.
  void foot(Lines& lines) const;
  /// Declares the indices of axes of one use from `linear`, the row-major index of them all.
  void declare_indices(Lines& lines, tile::AxisUse use, const std::string& linear) const;

 private:
  Terms terms(const tile::Access& access, bool lanes) const;
  void describe_table(Lines& lines) const;

  const tile::Kernel& kernel_;
  const EntryPoint entry_;
  std::string declaration_;  // of the kernel, up to its parameters
  std::vector<std::string> arguments_, values_;
};

/// Product of the extents of some axes.
std::int64_t extent_of(const tile::Kernel& kernel, const std::vector<std::int32_t>& axes);
/// The axes of one use, ascending.
std::vector<std::int32_t> axes_of(const tile::Kernel& kernel, tile::AxisUse use);
/// Whether a block must walk the rows of a part one after the other: something is carried from row to row,
/// follows the rows, or stands in memory by parts.
bool walks_parts(const tile::Kernel& kernel);
/// Whether nothing in the kernel writes what an access touches.
bool is_read_only(const tile::Kernel& kernel, const tile::Access& access);

}  // namespace rewire::codegen::cuda
