// The sums of a step over the processes of a run.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/exec/engine.h"
#include "runtime/group/group.h"

namespace rewire::runtime {

/// Replaces the states of programs::shard_sums() by their sums over all ranks: large ones in the engine's memory if the
/// host may write there, small ones together in a copy.
class ShardSums {
 public:
  /// All must outlive it.
  ShardSums(Engine& engine, const ir::Module& module, const ir::Function& accumulate, Group& group);
  /// All ranks call it after the last batch of a step.
  void add();

 private:
  void read_small();
  void write_small();

  Engine& engine_;
  Group& group_;
  std::vector<std::span<float>> large_;
  std::vector<const ir::Parameter*> small_;
  std::vector<float> numbers_;  // of the small ones, one after another
};

}  // namespace rewire::runtime
