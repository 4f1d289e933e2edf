#include "runtime/verify/engine_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string_view>

#include "ir/passes/mixed_precision.h"
#include "ir/side_results.h"
#include "runtime/verify/perturbed_state.h"

namespace rewire::runtime {
namespace {

constexpr double kGradientFloor = 1e-6;
constexpr double kTf32Rounding = 0x1p-10;  // a whole unit in TF32's last place

double norm(const std::vector<double>& values) {
  double square = 0;
  for (const double value : values) square += value * value;
  return std::sqrt(square);
}

/// Returns the row of an output: one row for each kind of side result.
std::string row_of(const std::string& output) {
  if (output.starts_with(ir::kReportPrefix)) return "reports";
  if (output.starts_with(ir::kLossPrefix)) return "loss terms";
  if (output.starts_with(ir::kUpdatePrefix)) return "updates";
  if (output.starts_with(ir::kAfterStepPrefix)) return "after_step";
  return output;
}

bool has_non_finite(const HostTensor& a, const HostTensor& b) {
  const auto has = [](const HostTensor& tensor) {
    return std::ranges::any_of(to_double(tensor).data, [](double value) { return !std::isfinite(value); });
  };
  return has(a) || has(b);
}

/// Rows of a check, each with its worst tensor.
class CheckRows {
 public:
  /// Keeps the worst tensor of a row. A NaN is worse than any number.
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

double finite_error(const HostTensor& actual, const HostTensor& expected, double floor) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (actual.type().shape != expected.type().shape) return kInfinite;
  const std::vector<double> values = to_double(actual).data, reference = to_double(expected).data;
  double distance = 0, size = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i], y = reference[i];
    if (std::isfinite(x) && std::isfinite(y)) {
      distance += (x - y) * (x - y);
      size += y * y;
    } else if (x != y && !(std::isnan(x) && std::isnan(y))) {
      return kInfinite;
    }
  }
  return distance == 0 ? 0 : std::sqrt(distance) / std::max(std::sqrt(size), floor);
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

/// Returns a tensor's root mean square error over runs with errors of rounding's
/// size, relative as its error is.
double EngineComparison::scatter(const std::string& name, ProgramRuns& runs, double floor,
                                 bool finite) const {
  const auto error_of = finite ? finite_error : relative_error;
  make_noise(runs);
  double square = 0;
  for (const TensorMap& noisy : runs.noisy)
    square += std::pow(error_of(noisy.at(name), runs.expected.at(name), floor), 2);
  return std::sqrt(square / kNoiseRuns);
}

void EngineComparison::make_noise(ProgramRuns& runs) const {
  while (runs.noisy.size() < kNoiseRuns) {
    const auto noise = static_cast<std::uint64_t>(runs.noisy.size() + 1);
    runs.noisy.push_back(run_from(*make_evaluator_engine(module_, Rounding::none, noise), runs));
  }
}

/// Returns true if runs that differ in rounding alone have other elements that are not finite.
bool EngineComparison::rounding_decides(const std::string& name, ProgramRuns& runs) const {
  make_noise(runs);
  const HostTensor& first = runs.noisy.front().at(name);
  const auto is_other = [&](const TensorMap& run) {
    return std::isinf(finite_error(run.at(name), first, 0));
  };
  return std::ranges::any_of(runs.noisy, is_other) || (rounded_ != nullptr && is_other(runs.rounded));
}

EngineCheckRow EngineComparison::compare(const std::string& name, ProgramRuns& runs, double floor,
                                         double fixed, bool finite) const {
  const auto error_of = finite ? finite_error : relative_error;
  const HostTensor& expected = runs.expected.at(name);
  EngineCheckRow tensor{name, name, expected.type().elements(), 0, fixed, "fixed"};
  tensor.error = error_of(runs.actual.at(name), expected, floor);
  if (finite && !tensor.passed() && has_non_finite(runs.actual.at(name), expected) &&
      rounding_decides(name, runs)) {
    tensor.bound = "rounding";
    tensor.tolerance = std::numeric_limits<double>::infinity();
    return tensor;
  }
  if (rounded_ != nullptr) {
    if (!tensor.passed()) tensor.bound = "rounding";
    const double rounding = error_of(runs.rounded.at(name), expected, floor);
    if (!finite || std::isfinite(rounding)) tensor.tolerance += 2 * rounding + rounding_;
  }
  if (!tensor.passed() && std::isfinite(tensor.error)) {
    // If noise leads out of an op's domain, the scatter says nothing, so it allows nothing.
    if (const double s = scatter(name, runs, floor, finite); std::isfinite(s)) {
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
  const TensorMap state = perturbed_tensors(module, weights, seed);
  const EngineComparison comparison(engine, reference, module, state);
  const auto run = [&](const std::string& program) {
    return comparison.run(program, random_arguments(module, module.function(program), seed));
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
