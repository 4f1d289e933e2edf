// Reads, computes and stores the values of a block kernel in its text, at the lane variables in scope.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/cuda/blocks_plan.h"
#include "codegen/cuda/kernel_text.h"

namespace rewire::codegen::cuda {

/// Returns the blocks of an instance: one, or one for each part or row.
std::int64_t walkers_of(const BlockPlan& plan, const tile::Kernel& kernel);
/// Declares the indices of the axes that a block is one point of. `block` is the text of its number.
void declare_places(const BlockPlan& plan, const KernelText& text, Lines& lines, const std::string& block);

class BlockValues {
 public:
  BlockValues(const BlockPlan& plan, const KernelText& text, Lines& lines)
      : plan_(plan), text_(text), lines_(lines) {}

  /// Starts another scope of lane variables: values recomputed in the last scope are forgotten.
  void change_scope() { scope_.clear(); }

  /// Returns the text of a value. A value recomputed at each reader becomes a variable, once per scope.
  Expression read(tile::TileValue value);
  Expression computed(const tile::Node& node);

  /// Returns the text of an element of a shared array.
  std::string place(tile::TileValue value) const;
  /// Writes an assignment to an element of a shared array.
  void put(tile::TileValue value, const std::string& text);
  /// Writes the store of an element of an argument under a condition; an empty one: always.
  void write_store(const tile::Store& store, std::string when);

  /// Notes that the thread has a value in a register of this name, until the value is released.
  void hold(tile::TileValue value, std::string name) { held_[value.id] = std::move(name); }
  void release(tile::TileValue value) { held_.erase(value.id); }
  void release_all() { held_.clear(); }

 private:
  Expression loaded(const tile::Load& load);
  Expression drawn(const tile::Random& random);

  const BlockPlan& plan_;
  const KernelText& text_;
  Lines& lines_;
  std::set<std::int32_t> scope_;              // values recomputed in the open scope
  std::map<std::int32_t, std::string> held_;  // the registers that hold values, by value
};

}  // namespace rewire::codegen::cuda
