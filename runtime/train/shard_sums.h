// The sums of a step over the processes of a run.
#pragma once

#include <string>
#include <vector>

#include "runtime/exec/engine.h"
#include "runtime/group/group.h"
#include "runtime/train/run_plan.h"

namespace rewire::runtime {

/// Replaces the states of programs::shard_sums() by their sums over all ranks. They travel in parts of some megabytes, so
/// that a part is read and written while another is under way.
class ShardSums {
 public:
  /// All must outlive it.
  ShardSums(Engine& engine, const ir::Module& module, Group& group);
  /// All ranks call it after the last batch of a step.
  void add();

 private:
  struct Part {
    std::vector<std::string> states;
    std::vector<float> numbers;
  };
  void write(const Part& part);

  Engine& engine_;
  const ir::Module& module_;
  Group& group_;
  std::vector<Part> parts_;
};

}  // namespace rewire::runtime
