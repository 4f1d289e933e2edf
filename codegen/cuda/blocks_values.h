// How the values of a block kernel are read, computed and stored in its text, at the lane variables that are
// in scope there.
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

class BlockValues {
 public:
  BlockValues(const BlockPlan& plan, const KernelText& text, Lines& lines)
      : plan_(plan), text_(text), lines_(lines) {}

  /// Lane variables begin or end: what was computed again under others is known no longer.
  void change_scope() { scope_.clear(); }

  /// What is computed at each reader becomes a variable of the scope that is open, once.
  Expression read(tile::TileValue value);
  Expression computed(const tile::Node& node);

  /// An element of a shared array.
  std::string place(tile::TileValue value) const;
  /// Writes an element of a shared array.
  void put(tile::TileValue value, const std::string& text);
  /// Writes an element of an argument under a condition; none: always.
  void write_store(const tile::Store& store, std::string when);

  /// The thread has a value in a register of this name, until it is released.
  void hold(tile::TileValue value, std::string name) { held_[value.id] = std::move(name); }
  void release(tile::TileValue value) { held_.erase(value.id); }
  void release_all() { held_.clear(); }

 private:
  Expression loaded(const tile::Load& load);
  Expression drawn(const tile::Random& random);

  const BlockPlan& plan_;
  const KernelText& text_;
  Lines& lines_;
  std::set<std::int32_t> scope_;              // values computed again in the scope that is open
  std::map<std::int32_t, std::string> held_;  // values that the thread has in registers under these names
};

}  // namespace rewire::codegen::cuda
