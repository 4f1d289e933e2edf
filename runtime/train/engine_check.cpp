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

/// One row for each kind of side result.
std::string row_of(const std::string& output) {
  if (output.starts_with(ir::kReportPrefix)) return "reports";
  if (output.starts_with(ir::kLossPrefix)) return "loss terms";
  if (output.starts_with(ir::kUpdatePrefix)) return "updates";
  if (output.starts_with(ir::kAfterStepPrefix)) return "after_step";
  return output;
}

/// Rows of a check, each with its worst tensor.
class CheckRows {
 public:
  /// A NaN is worse than any number.
  void add(const std::string& what, EngineCheckRow tensor) {
    tensor.what = what;
    const auto row = std::ranges::find(check.rows, what, &EngineCheckRow::what);
    if (row == check.rows.end()) {
      check.rows.push_back(std::move(tensor));
      return;
    }
    tensor.elements += row->elements;
    const double worst = row->error / row->tolerance;
    const bool is_worse = !std::isnan(worst) && !(tensor.error / tensor.tolerance <= worst);
    if (is_worse) {
      *row = std::move(tensor);
    } else {
      row->elements = tensor.elements;
    }
  }

  EngineCheck check;
};

}  // namespace

double relative_error(const HostTensor& actual, const HostTensor& expected, double floor) {
  const std::vector<double> reference = to_double(expected).data;
  std::vector<double> difference = to_double(actual).data;
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= reference[i];
  const double distance = norm(difference);
  return distance == 0 ? 0 : distance / std::max(norm(reference), floor);
}

EngineComparison::EngineComparison(Engine& engine, Engine& reference, const ir::Module& module,
                                   const TensorMap& state)
    : engine_(engine), reference_(reference), module_(module), state_(state) {
  const bool narrow = has_narrow_values(module);
  if (!narrow && !ir::allows_tf32(module)) return;
  rounding_ = narrow ? kNarrowRounding : kTf32Rounding;
  rounded_ = make_evaluator_engine(module, Rounding::dtypes);
}

TensorMap EngineComparison::run_from(Engine& engine, const ProgramRuns& runs) const {
  for (const ir::Parameter& parameter : module_.parameters)
    engine.write_state(parameter.name, state_.at(parameter.name));
  return engine.run(runs.program, runs.inputs);
}

ProgramRuns EngineComparison::run(const std::string& program, TensorMap inputs) const {
  ProgramRuns runs;
  runs.program = program;
  runs.inputs = std::move(inputs);
  runs.actual = run_from(engine_, runs);
  runs.expected = run_from(reference_, runs);
  if (rounded_ != nullptr) runs.rounded = run_from(*rounded_, runs);
  return runs;
}

/// Of the tensor, relative as its error: the root mean square over runs with errors of rounding's size.
double EngineComparison::scatter(const std::string& name, ProgramRuns& runs, double floor) const {
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

EngineCheckRow EngineComparison::compare(const std::string& name, ProgramRuns& runs, double floor,
                                         double fixed) const {
  const HostTensor& expected = runs.expected.at(name);
  EngineCheckRow tensor{name, name, expected.type().elements(), 0, fixed, "fixed"};
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
  return tensor;
}

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
  TensorMap state;
  for (const auto& [name, tensor] : perturbed_state(module, weights, seed))
    state.emplace(name, to_host(tensor));
  const EngineComparison comparison(engine, reference, module, state);
  const auto run = [&](const std::string& program) {
    const ir::Function& function = module.function(program);
    TensorMap inputs;
    for (const ir::Argument& argument : function.arguments)
      inputs.emplace(argument.name, to_host(random_argument(module, function, argument, seed)));
    return comparison.run(program, std::move(inputs));
  };
  CheckRows rows;
  ProgramRuns forward = run("forward");
  for (const ir::Argument& output : module.function("forward").results)
    rows.add(row_of(output.name), comparison.compare(output.name, forward, 0, kEngineOutputTolerance));
  ProgramRuns grad = run("grad");
  rows.add("loss", comparison.compare("loss", grad, 0, kEngineOutputTolerance));
  std::vector<const ir::Parameter*> trained;
  double square = 0;
  for (const ir::Parameter& parameter : module.parameters) {
    if (!parameter.trainable || !module.function("grad").result(parameter.name)) continue;
    trained.push_back(&parameter);
    square += std::pow(norm(to_double(grad.expected.at(parameter.name)).data), 2);
  }
  for (const ir::Parameter* parameter : trained) {
    rows.add(parameter->role, comparison.compare(parameter->name, grad, kGradientFloor * std::sqrt(square),
                                                 kEngineGradientTolerance));
  }
  return std::move(rows.check);
}

}  // namespace rewire::runtime
