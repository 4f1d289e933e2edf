#include "runtime/train/engine_check.h"

#include <algorithm>
#include <cmath>

#include "runtime/train/check_point.h"

namespace rewire::runtime {
namespace {

constexpr double kGradientFloor = 1e-6;
constexpr double kNarrowRounding = 0x1p-9;  // of bf16, half a unit in the last place
constexpr double kTf32Rounding = 0x1p-10;   // a whole one

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

TensorMap run_from(Engine& engine, const ir::Module& module, const TensorMap& state, const TensorMap& inputs,
                   std::string_view program) {
  for (const ir::Parameter& parameter : module.parameters)
    engine.write_state(parameter.name, state.at(parameter.name));
  return engine.run(program, inputs);
}

class Comparison {
 public:
  Comparison(Engine& engine, Engine& evaluator, const ir::Module& module, const TensorMap& weights,
             std::uint64_t seed, Engine* rounded)
      : engine_(engine),
        evaluator_(evaluator),
        rounded_(rounded),
        module_(module),
        seed_(seed),
        rounding_(has_narrow_values(module) ? kNarrowRounding : kTf32Rounding) {
    for (const auto& [name, tensor] : perturbed_state(module, weights, seed))
      state_.emplace(name, to_host(tensor));
  }

  EngineCheck compare() {
    const Runs forward = run("forward");
    for (const ir::Argument& output : module_.function("forward").results) {
      add(output.name, output.name, forward, 0, kEngineOutputTolerance);
    }
    const Runs grad = run("grad");
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
    TensorMap actual, expected, rounded;
  };

  Runs run(std::string_view program) {
    TensorMap inputs;
    const ir::Function& function = module_.function(program);
    for (const ir::Argument& argument : function.arguments)
      inputs.emplace(argument.name, to_host(random_argument(module_, function, argument, seed_)));
    return {run_from(engine_, module_, state_, inputs, program),
            run_from(evaluator_, module_, state_, inputs, program),
            rounded_ == nullptr ? TensorMap() : run_from(*rounded_, module_, state_, inputs, program)};
  }

  bool has_gradient(const ir::Parameter& parameter) const {
    return parameter.trainable && static_cast<bool>(module_.function("grad").result(parameter.name));
  }

  /// To the row of `what`, which keeps its worst tensor; a NaN is worse than any number.
  void add(const std::string& what, const std::string& name, const Runs& runs, double floor,
           double tolerance) {
    const HostTensor& expected = runs.expected.at(name);
    const double error = relative_error(runs.actual.at(name), expected, floor);
    if (rounded_ != nullptr)
      tolerance += 2 * relative_error(runs.rounded.at(name), expected, floor) + rounding_;
    auto row = std::ranges::find(check_.rows, what, &EngineCheckRow::what);
    if (row == check_.rows.end())
      row = check_.rows.insert(row, EngineCheckRow{what, name, 0, error, tolerance});
    row->elements += expected.type().elements();
    if (error / tolerance > row->error / row->tolerance || std::isnan(error)) {
      row->error = error;
      row->tolerance = tolerance;
      row->worst = name;
    }
  }

  Engine& engine_;
  Engine& evaluator_;
  Engine* rounded_;
  const ir::Module& module_;
  const std::uint64_t seed_;
  const double rounding_;
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

EngineCheck check_engine(Engine& engine, Engine& evaluator, const ir::Module& module,
                         const TensorMap& weights, std::uint64_t seed, Engine* rounded) {
  return Comparison(engine, evaluator, module, weights, seed, rounded).compare();
}

}  // namespace rewire::runtime
