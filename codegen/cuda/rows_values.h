// How the values of a row kernel are read and named in its text: what has lanes and outlives its loop is an
// array of a thread's elements, all else a variable, or an expression at its one reader.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/rows_plan.h"

namespace rewire::codegen::cuda {

class RowValues {
 public:
  RowValues(const RowsPlan& plan, const KernelText& text, Lines& lines);

  /// Whether a value has a register for each element of the thread.
  bool is_array(tile::TileValue value) const { return plan_.home(value).array; }
  /// At the element `e` of the open loop, where the value has lanes. Index arithmetic becomes a variable
  /// first.
  Expression read(tile::TileValue value);
  /// Names a value, or leaves its text to its one reader.
  void define(tile::TileValue value, const Expression& text);
  /// A variable of the value's own name has it.
  void know(tile::TileValue value, const std::string& name);
  /// The node that computes a value; nullptr: it is carried.
  const tile::Node* definition(tile::TileValue value) const;

  Expression pointwise(const tile::Pointwise& node);
  /// One element of memory, a gathered one included.
  Expression loaded(const tile::Load& load);
  /// `element`: the index of what is drawn.
  Expression drawn(const tile::Random& random, const std::string& element);
  /// "192LL * clamped(index, 50)": what a computed index adds to an address.
  std::string gathered(const tile::Load& load);

  /// The loop over a thread's elements, `e`; and the lane variables that an element stands for.
  void open_elements();
  void close_elements();
  void declare_lanes();

 private:
  const RowsPlan& plan_;
  const KernelText& text_;
  Lines& lines_;
  std::vector<Expression> texts_;       // by value: how it is read, where it is no array
  std::vector<tile::TileValue> again_;  // defined in the loop that is open
};

}  // namespace rewire::codegen::cuda
