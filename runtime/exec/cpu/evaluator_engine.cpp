// The engine that runs programs on the evaluator. It keeps the state as the evaluator's doubles between
// runs. Values cross the interface in their stored dtypes.

#include <algorithm>
#include <cstdint>
#include <limits>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/passes/mixed_precision.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/engine.h"

namespace rewire::runtime {
namespace {

/// Throws UserError, which names the tensor, if the tensor holds an integer that no double represents.
ir::Tensor doubles_of(std::string_view what, std::string_view name, const HostTensor& tensor) {
  try {
    return to_double(tensor);
  } catch (const UserError& error) {
    user_error("{} '{}': {}", what, name, error.what());
  }
}

/// Returns the tensor as stored. A cast's 2^63 is the largest i64, which no double
/// represents (ir::round_to).
HostTensor stored(const ir::Tensor& tensor) {
  constexpr double kBeyond = 0x1p63;
  if (tensor.type.dtype != ir::DType::i64 || std::ranges::find(tensor.data, kBeyond) == tensor.data.end())
    return to_host(tensor);
  ir::Tensor within = tensor;
  std::ranges::replace(within.data, kBeyond, 0.0);
  HostTensor host = to_host(within);
  for (std::size_t i = 0; i < tensor.data.size(); ++i) {
    if (tensor.data[i] == kBeyond) host.as<std::int64_t>()[i] = std::numeric_limits<std::int64_t>::max();
  }
  return host;
}

class EvaluatorEngine final : public Engine {
 public:
  EvaluatorEngine(const ir::Module& module, Rounding rounding, std::uint64_t noise) : module_(module) {
    state_.round = rounding == Rounding::dtypes;
    state_.round_to_tf32 = state_.round && ir::allows_tf32(module);
    state_.noise = noise;
    for (const ir::Parameter& parameter : module_.parameters) {
      state_.tensors.emplace(parameter.name, ir::Tensor(parameter.type));
    }
  }

  void write_state(std::string_view name, const HostTensor& value) override {
    const ir::Parameter& parameter = checked_parameter(module_, name);
    check_state_type(parameter, value);
    state_.tensors.at(parameter.name) = doubles_of("parameter", name, value);
  }

  HostTensor read_state(std::string_view name) const override {
    return stored(state_.tensors.at(checked_parameter(module_, name).name));
  }

  TensorMap run(std::string_view function_name, const TensorMap& inputs) override {
    const ir::Function& function = checked_function(module_, function_name);
    std::vector<ir::Tensor> arguments;
    const std::vector<const HostTensor*> bound = bind_inputs(function, inputs);
    for (std::size_t i = 0; i < bound.size(); ++i) {
      arguments.push_back(doubles_of("input", function.arguments[i].name, *bound[i]));
    }
    state_.training = function.trains;
    const std::vector<ir::Tensor> results = evaluate(module_, function, arguments, state_);
    TensorMap outputs;
    for (std::size_t i = 0; i < results.size(); ++i) {
      outputs.emplace(function.results[i].name, stored(results[i]));
    }
    return outputs;
  }

  void prepare(std::string_view function) override { checked_function(module_, function); }

 private:
  const ir::Module module_;
  ir::EvalState state_;
};

}  // namespace

std::unique_ptr<Engine> make_evaluator_engine(const ir::Module& module, Rounding rounding,
                                              std::uint64_t noise) {
  return std::make_unique<EvaluatorEngine>(module, rounding, noise);
}

}  // namespace rewire::runtime
