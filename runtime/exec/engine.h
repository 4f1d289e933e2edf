// Runs the named programs of a module over one persistent state. Two engines: the evaluator (the oracle:
// double precision, slow) and the JIT for the CPU. Callers see this interface only; which one runs is a flag.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/host_tensor.h"

namespace rewire::runtime {

class Engine {
 public:
  virtual ~Engine() = default;

  /// State by parameter name. UserError on an unknown name or another type (names the tensor and both types).
  virtual void write_state(std::string_view name, const HostTensor& value) = 0;
  virtual HostTensor read_state(std::string_view name) const = 0;

  /// Runs a function of the module: `inputs` by argument name (types must agree: UserError naming both),
  /// results by result name.
  virtual TensorMap run(std::string_view function, const TensorMap& inputs) = 0;
};

/// The module must be verified. `training`: what is_training answers in each function is decided per function
/// by the module attribute "training" = list of function names joined by '+' (absent: none).
std::unique_ptr<Engine> make_evaluator_engine(const ir::Module& module);

}  // namespace rewire::runtime
