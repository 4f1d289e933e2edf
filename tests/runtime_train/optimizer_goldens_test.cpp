// Twenty updates by each optimizer against its public reference (tests/reference/optimizers.py): by the evaluator in
// double, and compiled in f32.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "programs/optimizer.h"
#include "runtime/io/safetensors.h"
#include "tests/runtime_train/resident_optimizers.h"
#include "tests/runtime_train/update_module.h"
#include "tests/support/catch.h"

namespace rewire::programs {
namespace {

struct OptimizerGolden {
  std::vector<UpdatedWeight> weights;
  std::map<std::string, ir::Selection> runs;
  std::int64_t steps;
  WeightValues start, gradients;
  std::map<std::string, WeightValues> last;  // by run
};

ir::Selection selection_of(const nlohmann::json& values) {
  ir::Selection chosen{values.at("optimizer").get<std::string>()};
  for (const auto& [name, value] : values.items()) {
    if (name == "optimizer") continue;
    if (value.is_boolean()) chosen.set(name, value.get<bool>());
    if (value.is_number_integer()) chosen.set(name, value.get<std::int64_t>());
    if (value.is_number_float()) chosen.set(name, value.get<double>());
    if (value.is_string()) chosen.set(name, value.get<std::string>());
  }
  return chosen;
}

OptimizerGolden read_optimizer_golden() {
  const runtime::SafetensorsFile file =
      runtime::read_safetensors(std::string(REWIRE_GOLDENS) + "/optimizers.safetensors");
  const auto told = nlohmann::json::parse(file.metadata.at("case"));
  const auto values = [&](const std::string& name) {
    return runtime::to_double(file.tensors.find(name)->second).data;
  };
  OptimizerGolden golden;
  golden.steps = told.at("steps").get<std::int64_t>();
  for (const auto& [name, weight] : told.at("weights").items()) {
    golden.weights.push_back(
        {name, weight.at("shape").get<ir::Shape>(), weight.at("decay").get<bool>(), weight.at("role")});
    golden.start[name] = values("weight/" + name);
    golden.gradients[name] = values("gradient/" + name);
  }
  for (const auto& [run, options] : told.at("runs").items()) {
    golden.runs.emplace(run, selection_of(options));
    for (const UpdatedWeight& weight : golden.weights)
      golden.last[run][weight.name] = values(run + "/" + weight.name);
  }
  return golden;
}

WeightValues gradients_of(const OptimizerGolden& golden, std::int64_t step) {
  WeightValues slice;
  for (const auto& [name, all] : golden.gradients) {
    const std::size_t size = golden.start.at(name).size();
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(step) * size);
    slice[name].assign(begin, begin + static_cast<std::ptrdiff_t>(size));
  }
  return slice;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// Of a weight over its norm, and over the way that it went.
struct Errors {
  double weight, way;
};

void check_last(const OptimizerGolden& golden, const std::string& run, UpdateRun& updates,
                const Errors& most) {
  for (std::int64_t step = 0; step < golden.steps; ++step) updates.update(gradients_of(golden, step));
  for (const auto& [name, expected] : golden.last.at(run)) {
    const double error = distance(updates.read(name), expected);
    const double way = error / distance(golden.start.at(name), expected);
    const double of_weight = error / distance(expected, std::vector<double>(expected.size()));
    INFO(fmt::format("{} {}: {:.1e} of the weight, {:.1e} of its way", run, name, of_weight, way));
    CHECK(of_weight <= most.weight);
    CHECK(way <= most.way);
  }
}

TEST_CASE("Each optimizer's twenty updates are its reference's, evaluated and compiled") {
  const OptimizerGolden golden = read_optimizer_golden();
  std::set<std::string> compared;
  for (const auto& [run, chosen] : golden.runs) {
    const ir::Module module = update_module(chosen, golden.weights, golden.steps);
    UpdateRun evaluated(chosen, module, golden.start);
    check_last(golden, run, evaluated, {1e-12, 1e-10});
    UpdateRun compiled(chosen, module, golden.start, 2);
    check_last(golden, run, compiled, {1e-5, 1e-3});
    compared.insert(chosen.name);
  }
  for (const std::string& name : resident_optimizers()) CHECK(compared.contains(name));
}

TEST_CASE("An update's bits do not depend on the number of threads") {
  const OptimizerGolden golden = read_optimizer_golden();
  for (const auto& [run, chosen] : golden.runs) {
    CAPTURE(run);
    const ir::Module module = update_module(chosen, golden.weights, golden.steps);
    std::vector<UpdateRun> runs;
    for (const int threads : {1, 2, 3}) {
      UpdateRun& updates = runs.emplace_back(chosen, module, golden.start, threads);
      for (std::int64_t step = 0; step < 8; ++step) updates.update(gradients_of(golden, step));
    }
    for (const ir::Parameter& parameter : module.parameters) {
      CAPTURE(parameter.name);
      CHECK(runs[0].read(parameter.name) == runs[1].read(parameter.name));
      CHECK(runs[0].read(parameter.name) == runs[2].read(parameter.name));
    }
  }
}

}  // namespace
}  // namespace rewire::programs
