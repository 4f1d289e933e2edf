// Shared parts of all kernel forms (rows.h, transposes.h, walks.h, blocks.h): lines of text, a kernel's names and
// addresses, and the comment at its head.
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

/// Collects lines with indentation.
class Lines {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_.append(2 * static_cast<std::size_t>(depth_), ' ');
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }
  /// Writes a line that opens a block: "for (…) {".
  template <class... Args>
  void open(fmt::format_string<Args...> format, Args&&... args) {
    line("{} {{", fmt::format(format, std::forward<Args>(args)...));
    ++depth_;
  }
  void close() {
    --depth_;
    line("}}");
  }
  /// Writes a line at the margin, whatever the depth: "#pragma unroll".
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

  /// Returns "192 * r1 + c0 + 5"; `wide`: in 64 bits.
  std::string text(bool wide) const;
};

/// The entry of a kernel: its own arguments, or the members of a table.
struct EntryPoint {
  std::string symbol;
  std::vector<std::string> members;  // names of a table's members; empty: no table
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

  /// The element index of an access: without its lane axes, or with the variables of all axes.
  std::string outer_index(const tile::Access& access) const {
    return terms(access, false).text(wide(access));
  }
  std::string element_index(const tile::Access& access) const {
    return terms(access, true).text(wide(access));
  }
  /// Returns "x + 192 * r1", where the lanes of an access begin.
  std::string pointer(const tile::Access& access) const;
  /// Returns how many neighbours along `lane` form a packet aligned to its size, of at most 16 bytes; 0:
  /// none.
  std::int64_t packet_of(const tile::Access& access, std::int32_t lane) const;
  /// Returns whether an element index may exceed 32 bits.
  bool wide(const tile::Access& access) const;
  /// Returns "192LL * clamped(index, 50)", which a computed index adds to the address of a load.
  std::string gathered(const tile::Load& load, const Expression& index) const;

  /// Returns a constant, or the variable of the index along an axis.
  Expression immediate(const tile::Node& node) const;
  /// Returns the element of a load at `index`, in the type that it is computed in.
  Expression loaded(const tile::Load& load, const std::string& index) const;
  /// Returns "seed, step, stream", the key of all numbers of a node. `read` returns a scalar's expression.
  static std::string draw_key(const tile::Random& random,
                              const std::function<Expression(tile::TileValue)>& read);
  /// Returns one number of a stream; `element` selects it.
  static Expression drawn(const tile::Random& random, const std::string& key, const std::string& element);
  /// Returns "if (when) y[c0] = convert<bf16>(x);" for the element at the axes in scope.
  std::string stored(const tile::Store& store, const Expression& value, const std::string& when) const;
  /// Returns the condition that picks one of the elements that would store to one place: index 0 along the
  /// lanes that the access lacks.
  std::string first_of_same(const tile::Access& access, const std::vector<std::int32_t>& lanes) const;

  /// Writes the comment above a kernel and the lines up to its opening brace. `resident_blocks`: the blocks
  /// per multiprocessor that registers must suffice for.
  void head(Lines& lines, const LaunchShape& launch, int resident_blocks, const std::string& how);
  /// Writes the closing brace, and for a table the kernel that finds a block's member.
  void foot(Lines& lines) const;
  /// Declares the indices of all axes of one use, computed from `linear`, their row-major index.
  void declare_indices(Lines& lines, tile::AxisUse use, const std::string& linear) const;

 private:
  Terms terms(const tile::Access& access, bool lanes) const;
  void describe_table(Lines& lines) const;

  const tile::Kernel& kernel_;
  const EntryPoint entry_;
  std::string declaration_;  // of the kernel, up to its parameters
  std::vector<std::string> arguments_, values_;
};

/// Returns the product of the extents of some axes.
std::int64_t extent_of(const tile::Kernel& kernel, const std::vector<std::int32_t>& axes);
/// Returns the axes of one use, ascending.
std::vector<std::int32_t> axes_of(const tile::Kernel& kernel, tile::AxisUse use);
/// Returns whether a block must walk the rows of a part in order: a value is carried from row to row, an
/// epilogue follows the rows, or memory is addressed by part.
bool walks_parts(const tile::Kernel& kernel);
/// Returns whether the kernel writes nothing that an access touches.
bool is_read_only(const tile::Kernel& kernel, const tile::Access& access);

}  // namespace rewire::codegen::cuda
