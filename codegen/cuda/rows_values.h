// Reads and names the values of a row kernel in its text. A value with lanes that outlives its loop is an
// array of a thread's elements; any other is a variable, or an expression at its one reader.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/rows_plan.h"

namespace rewire::codegen::cuda {

class RowValues {
 public:
  RowValues(const RowsPlan& plan, const KernelText& text, Lines& lines);

  /// Returns whether a value has a register for each element of the thread.
  bool is_array(tile::TileValue value) const { return plan_.home(value).array; }
  /// Returns the text of a value, at element `e` of the open loop if it has lanes. Index arithmetic becomes
  /// a variable first.
  Expression read(tile::TileValue value);
  /// Gives a value its text: as a variable, or at its one reader.
  void define(tile::TileValue value, const Expression& text);
  /// Notes that the variable `name` has the value.
  void know(tile::TileValue value, const std::string& name);
  /// Returns the node that computes a value; nullptr: it is carried.
  const tile::Node* definition(tile::TileValue value) const;

  Expression pointwise(const tile::Pointwise& node);
  /// Returns one element of memory, gathered or not.
  Expression loaded(const tile::Load& load);
  /// Returns a random number; `element`: its index.
  Expression drawn(const tile::Random& random, const std::string& element);
  /// Returns "192LL * clamped(index, 50)", which a computed index adds to an address.
  std::string gathered(const tile::Load& load);

  /// Opens and closes the loop over a thread's elements, `e`, and declares the lane variables of an element.
  void open_elements();
  void close_elements();
  void declare_lanes();

 private:
  const RowsPlan& plan_;
  const KernelText& text_;
  Lines& lines_;
  std::vector<Expression> texts_;       // by value: its text, unless it is an array
  std::vector<tile::TileValue> again_;  // computed in the open loop
};

}  // namespace rewire::codegen::cuda
