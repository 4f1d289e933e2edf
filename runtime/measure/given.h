// Batches that the user gives as files instead of a data set: checked against the program before it runs, and
// stepped through one by one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/exec/engine.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// A tensor and the file it came from, for messages.
struct GivenTensor {
  HostTensor tensor;
  std::string file;
};
GivenTensor read_given(const std::string& npy_path);

/// The extent of the batch axis of one batch with `rank` axes; with `stack`, also of a stack of batches,
/// which has one axis more. UserError if it has another rank.
std::int64_t batch_extent(const GivenTensor& given, int rank, bool stack, int batch_axis = 0);

/// UserError naming both types unless `given` is one batch of this argument; integers must also be among its
/// categories (programs::categories).
void check_batch(const ir::Module& module, const ir::Function& function, std::string_view argument,
                 const GivenTensor& given);

/// By the names of a program's arguments.
using GivenInputs = std::map<std::string, GivenTensor, std::less<>>;

/// What `rewire step` does: `steps` optimizer steps of `module`'s program `step` (or of `accumulate` and
/// `apply`), with the optimizer's own programs behind those that programs::refreshes_behind names. Each input is
/// one batch, used every time, or a stack of steps x accumulate batches along a new first axis. Returns each step's loss. UserError where
/// a loss or gradient is not finite: it names the step and the first non-finite tensor, and the engine's
/// state is that of the step before.
std::vector<double> run_given_steps(Engine& engine, const ir::Module& module, const GivenInputs& inputs,
                                    std::int64_t steps, std::int64_t accumulate,
                                    std::int64_t refresh_period = 0);

}  // namespace rewire::runtime
