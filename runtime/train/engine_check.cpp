#include "runtime/train/engine_check.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>

#include "ir/passes/mixed_precision.h"
#include "ir/side_results.h"
#include "runtime/train/perturbed_state.h"

namespace rewire::runtime {
namespace {

constexpr double kGradientFloor = 1e-6;
constexpr double kNarrowRounding = 0x1p-9;  // of bf16, half a unit in the last place
constexpr double kTf32Rounding = 0x1p-10;   // a whole one
constexpr double kScatters = 4;

double norm(const std::vector<double>& values) {
  double square = 0;
  for (const double value : values) square += value * value;
  return std::sqrt(square);
}

/// |actual - expected| / max(|expected|, floor); 0 where all three are.
double relative_error(const HostTensor& actual, const HostTensor& expected, double floor) {
  const std::vector<double> reference = to_double(expected).data;
  std::vector<double> difference = to_double(actual).data;
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= reference[i];
  const double distance = norm(difference);
  return distance == 0 ? 0 : distance / std::max(norm(reference), floor);
}

/// One row for each kind of side result.
std::string row_of(const std::string& output) {
  if (output.starts_with(ir::kReportPrefix)) return "reports";
  if (output.starts_with(ir::kLossPrefix)) return "loss terms";
  if (output.starts_with(ir::kUpdatePrefix)) return "updates";
  if (output.starts_with(ir::kAfterStepPrefix)) return "after_step";
  return output;
}

class Comparison {
 public:
  Comparison(Engine& engine, Engine& reference, const ir::Module& module, const TensorMap& weights,
             std::uint64_t seed)
      : engine_(engine), reference_(reference), module_(module), seed_(seed) {
    const bool narrow = has_narrow_values(module);
    if (narrow || ir::allows_tf32(module)) {
      rounding_ = narrow ? kNarrowRounding : kTf32Rounding;
      rounded_ = make_evaluator_engine(module, Rounding::dtypes);
    }
    for (const auto& [name, tensor] : perturbed_state(module, weights, seed))
      state_.emplace(name, to_host(tensor));
  }

  EngineCheck compare() {
    Runs forward = run("forward");
    for (const ir::Argument& output : module_.function("forward").results) {
      add(row_of(output.name), output.name, forward, 0, kEngineOutputTolerance);
    }
    Runs grad = run("grad");
    add("loss", "loss", grad, 0, kEngineOutputTolerance);
    double square = 0;
    for (const ir::Parameter& parameter : module_.parameters) {
      if (has_gradient(parameter))
        square += std::pow(norm(to_double(grad.expected.at(parameter.name)).data), 2);
    }
    for (const ir::Parameter& parameter : module_.parameters) {
      if (has_gradient(parameter))
        add(parameter.role, parameter.name, grad, kGradientFloor * std::sqrt(square),
            kEngineGradientTolerance);
    }
    return std::move(check_);
  }

 private:
  struct Runs {
    std::string_view program;
    TensorMap inputs, actual, expected, rounded;
    std::vector<TensorMap> noisy;  // once they are asked for
  };

  TensorMap run_from(Engine& engine, const Runs& runs) const {
    for (const ir::Parameter& parameter : module_.parameters)
      engine.write_state(parameter.name, state_.at(parameter.name));
    return engine.run(runs.program, runs.inputs);
  }

  Runs run(std::string_view program) const {
    Runs runs;
    runs.program = program;
    const ir::Function& function = module_.function(program);
    for (const ir::Argument& argument : function.arguments)
      runs.inputs.emplace(argument.name, to_host(random_argument(module_, function, argument, seed_)));
    runs.actual = run_from(engine_, runs);
    runs.expected = run_from(reference_, runs);
    if (rounded_ != nullptr) runs.rounded = run_from(*rounded_, runs);
    return runs;
  }

  /// Of the tensor, relative as its error: the root mean square over runs with errors of rounding's size.
  double scatter(const std::string& name, Runs& runs, double floor) const {
    if (runs.noisy.empty()) {
      for (int i = 1; i <= kNoiseRuns; ++i)
        runs.noisy.push_back(
            run_from(*make_evaluator_engine(module_, Rounding::none, static_cast<std::uint64_t>(i)), runs));
    }
    double square = 0;
    for (const TensorMap& noisy : runs.noisy)
      square += std::pow(relative_error(noisy.at(name), runs.expected.at(name), floor), 2);
    return std::sqrt(square / kNoiseRuns);
  }

  bool has_gradient(const ir::Parameter& parameter) const {
    return parameter.trainable && static_cast<bool>(module_.function("grad").result(parameter.name));
  }

  /// To the row of `what`, which keeps its worst tensor; a NaN is worse than any number.
  void add(const std::string& what, const std::string& name, Runs& runs, double floor, double fixed) {
    const HostTensor& expected = runs.expected.at(name);
    EngineCheckRow tensor{what, name, expected.type().elements(), 0, fixed, "fixed"};
    tensor.error = relative_error(runs.actual.at(name), expected, floor);
    if (rounded_ != nullptr) {
      if (!tensor.passed()) tensor.bound = "rounding";
      tensor.tolerance += 2 * relative_error(runs.rounded.at(name), expected, floor) + rounding_;
    }
    if (!tensor.passed() && std::isfinite(tensor.error)) {
      // Where noise leads out of an op's domain, it says nothing, and allows nothing.
      if (const double s = scatter(name, runs, floor); std::isfinite(s)) {
        tensor.bound = "cancellation";
        tensor.tolerance += kScatters * s;
      }
    }
    const auto row = std::ranges::find(check_.rows, what, &EngineCheckRow::what);
    if (row == check_.rows.end()) {
      check_.rows.push_back(tensor);
      return;
    }
    tensor.elements += row->elements;
    const double worst = row->error / row->tolerance;
    const bool is_worse = !std::isnan(worst) && !(tensor.error / tensor.tolerance <= worst);
    if (is_worse) {
      *row = tensor;
    } else {
      row->elements = tensor.elements;
    }
  }

  Engine& engine_;
  Engine& reference_;
  std::unique_ptr<Engine> rounded_;  // where values are narrow
  double rounding_ = 0;
  const ir::Module& module_;
  const std::uint64_t seed_;
  TensorMap state_;
  EngineCheck check_;
};

}  // namespace

bool EngineCheck::passed() const {
  return std::ranges::all_of(rows, &EngineCheckRow::passed);
}

bool has_narrow_values(const ir::Module& module) {
  const auto narrow = [](const ir::TensorType& type) {
    return type.dtype == ir::DType::bf16 || type.dtype == ir::DType::f16;
  };
  return std::ranges::any_of(module.functions, [&](const ir::Function& function) {
    return std::ranges::any_of(function.types, narrow);
  });
}

EngineCheck check_engine(Engine& engine, Engine& reference, const ir::Module& module,
                         const TensorMap& weights, std::uint64_t seed) {
  return Comparison(engine, reference, module, weights, seed).compare();
}

}  // namespace rewire::runtime
