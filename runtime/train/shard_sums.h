// The sums of a step over the processes of a run.
#pragma once

#include <memory>

#include "ir/module.h"
#include "runtime/exec/engine.h"
#include "runtime/group/group.h"

namespace rewire::runtime {

/// Returns the sums of the states of programs::shard_sums(). If the engine cannot make them itself, the host does: of
/// large states in the engine's memory, if it may write there, of small ones together in a copy. All must outlive it.
std::unique_ptr<StateSums> make_shard_sums(Engine& engine, const ir::Module& module,
                                           const ir::Function& accumulate, Group& group);

}  // namespace rewire::runtime
