#include "runtime/repro/compare.h"

#include <algorithm>
#include <cmath>

#include "ir/opcodes.h"
#include "runtime/exec/make_engine.h"
#include "runtime/verify/engine_check.h"

namespace rewire::runtime {
namespace {

/// The error allowed for rounding (engine_check.h). It exceeds the fixed bound if values
/// are narrow or nearly cancel.
class Allowance {
 public:
  Allowance(const ir::Module& module, const std::string& function, const TensorMap& inputs,
            const TensorMap& state, const TensorMap& expected)
      : module_(module), function_(function), inputs_(inputs), state_(state), expected_(expected) {}

  double of(const std::string& name, double error) {
    constexpr double kAhead = 10;  // a margin: another processor rounds differently
    double allowed = kEngineOutputTolerance;
    if (error * kAhead <= allowed) return allowed;
    if (has_narrow_values(module_)) {
      if (rounded_.empty())
        rounded_ =
            run_once(*make_evaluator_engine(module_, Rounding::dtypes), module_, function_, inputs_, state_);
      const double rounding = 2 * finite_error(rounded_.at(name), expected_.at(name), 0) + kNarrowRounding;
      if (std::isfinite(rounding)) allowed += rounding;
    }
    const double scattered = scatter(name);
    return std::isfinite(scattered) ? allowed + kScatters * scattered : allowed;
  }

 private:
  double scatter(const std::string& name) {
    for (int i = 1; noisy_.size() < kNoiseRuns; ++i) {
      const auto noisy = make_evaluator_engine(module_, Rounding::none, static_cast<std::uint64_t>(i));
      noisy_.push_back(run_once(*noisy, module_, function_, inputs_, state_));
    }
    double square = 0;
    for (const TensorMap& noisy : noisy_)
      square += std::pow(finite_error(noisy.at(name), expected_.at(name), 0), 2);
    return std::sqrt(square / kNoiseRuns);
  }

  const ir::Module& module_;
  const std::string& function_;
  const TensorMap &inputs_, &state_, &expected_;
  TensorMap rounded_;
  std::vector<TensorMap> noisy_;
};

}  // namespace

TensorMap run_once(Engine& engine, const ir::Module& module, const std::string& name, const TensorMap& inputs,
                   const TensorMap& state) {
  for (const ir::Parameter& parameter : module.parameters)
    engine.write_state(parameter.name, state.at(parameter.name));
  TensorMap left = engine.run(name, inputs);
  for (const ir::Op& op : module.function(name).body) {
    if (op.code != ir::Opcode::update) continue;
    const std::string& updated = op.attributes.get_string("name");
    left[updated + " after the run"] = engine.read_state(updated);
  }
  return left;
}

TensorMap evaluated(const ir::Module& module, const std::string& function, const TensorMap& inputs,
                    const TensorMap& state) {
  return run_once(*make_evaluator_engine(module), module, function, inputs, state);
}

bool all_finite(const TensorMap& results) {
  return std::ranges::all_of(results, [](const auto& result) {
    const std::vector<double> values = to_double(result.second).data;
    return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
  });
}

std::vector<ReproRow> rows_of(const TensorMap& actual, const TensorMap& expected,
                              const std::function<double(const std::string&, double)>& allowed) {
  std::vector<ReproRow> rows;
  for (const auto& [name, tensor] : expected) {
    const double error = finite_error(actual.at(name), tensor, 0);
    rows.push_back({name, tensor.type().elements(), error, allowed(name, error)});
  }
  return rows;
}

std::vector<ReproRow> compare_runs(const ir::Module& module, const std::string& function,
                                   const TensorMap& inputs, const TensorMap& state,
                                   const TensorMap& expected) {
  const auto engine = make_engine(engine_names().front(), module);
  const TensorMap actual = run_once(*engine, module, function, inputs, state);
  Allowance allowance(module, function, inputs, state, expected);
  return rows_of(actual, expected,
                 [&](const std::string& name, double error) { return allowance.of(name, error); });
}

}  // namespace rewire::runtime
