// The sums of states over the processes of a run.
#pragma once

namespace rewire::runtime {

class StateSums {
 public:
  virtual ~StateSums() = default;
  /// Replaces the states by their sums over all ranks, added as the leaves of a binary tree (Group::start_sum). It
  /// counts what runs that were submitted before have written, and runs submitted afterwards find the sums. All ranks
  /// call it.
  virtual void add() = 0;
};

}  // namespace rewire::runtime
