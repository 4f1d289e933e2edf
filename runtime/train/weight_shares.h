// ZeRO's first stage (Rajbhandari et al., SC 2020, section 5.1): each rank updates a part of the weights, and the
// optimizer's states of these weights are in its memory alone.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "ir/module.h"
#include "runtime/exec/engine.h"
#include "runtime/group/group.h"
#include "runtime/io/host_tensor.h"
#include "runtime/train/run_plan.h"

namespace rewire::runtime {

/// Moves states between the ranks that update them and the others. All must outlive it.
class WeightShares {
 public:
  /// The plan must have shares.
  WeightShares(Engine& engine, const RunPlan& plan, Group& group);

  /// Gives every rank the weights that others have updated, and what else it has of them. All ranks call it after an update.
  void send();
  /// Returns the states that other ranks alone have, on rank 0 as they are, elsewhere nothing. All ranks call it.
  TensorMap collect();

 private:
  /// A large state in the engine's memory, or small ones of one owner together.
  struct Large {
    int owner;
    std::span<std::byte> memory;
  };

  void send_small(int owner);

  Engine& engine_;
  const RunPlan& plan_;
  Group& group_;
  std::vector<Large> large_;
  std::map<int, std::vector<const ir::Parameter*>> small_;  // by owner
  std::vector<std::byte> bytes_;
};

/// Writes the states that this process has.
void write_own_states(Engine& engine, const RunPlan& plan, const TensorMap& states);

}  // namespace rewire::runtime
