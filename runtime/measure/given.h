// Batches that the user gives as files instead of a data set: each is checked against the program first,
// then a step runs on each.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "programs/programs.h"
#include "runtime/exec/engine.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// A tensor and its file's name, for messages.
struct GivenTensor {
  HostTensor tensor;
  std::string file;
};
GivenTensor read_given(const std::string& npy_path);

/// Returns the batch size of one batch with `rank` axes or, with `stack`, of a stack of batches, which has
/// one more axis. Throws UserError if the tensor has another rank.
std::int64_t batch_extent(const GivenTensor& given, int rank, bool stack, int batch_axis = 0);

/// Throws UserError with both types unless `given` is one batch of this argument. Integers must also be
/// among its categories (programs::categories).
void check_batch(const ir::Module& module, const ir::Function& function, std::string_view argument,
                 const GivenTensor& given);

/// Tensors by the names of a program's arguments.
using GivenInputs = std::map<std::string, GivenTensor, std::less<>>;

/// Implements `rewire step`: runs `steps` optimizer steps of `module`'s program `step` (or of `accumulate`
/// and `apply`, and for shards the programs `fold`), and the optimizer's own programs after the steps that
/// programs::refreshes_behind names. Each input is one batch, used every time, or a stack of steps x shards x
/// accumulate batches along a new first axis. `options` are those of the programs. Returns each step's loss.
/// Throws UserError if a loss or gradient is not finite: it names the step and the first non-finite tensor, and
/// the engine keeps the state of the step before.
std::vector<double> run_given_steps(Engine& engine, const ir::Module& module, const GivenInputs& inputs,
                                    std::int64_t steps, const programs::TrainOptions& options);

}  // namespace rewire::runtime
