#include "tests/parity/autocast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ir/passes/mixed_precision.h"
#include "ir/verify.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

using runtime::HostTensor;
using runtime::TensorMap;

/// Batch k: the first one, its pixels moved on by 7 k places, its labels by k.
HostTensor moved(const Golden& golden, const std::string& name, std::int64_t places) {
  const ir::Tensor all = runtime::to_double(golden.tensors.at(name));
  ir::TensorType type = all.type;
  type.shape.erase(type.shape.begin());
  std::vector<double> values(all.data.begin(),
                             all.data.begin() + static_cast<std::ptrdiff_t>(type.elements()));
  const std::int64_t left = type.elements() - places % type.elements();
  std::rotate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(left % type.elements()),
              values.end());
  return runtime::to_host(ir::Tensor(type, std::move(values)));
}

TensorMap run_batch(const Golden& golden, runtime::Engine& engine, std::int64_t k) {
  TensorMap inputs;
  inputs.emplace("image", moved(golden, "images", 7 * k));
  TensorMap results = engine.run("forward", inputs);
  inputs.emplace("label", moved(golden, "labels", k));
  for (auto& [name, tensor] : engine.run("grad", inputs))
    results.emplace(name == "loss" ? name : "gradient/" + name, std::move(tensor));
  return results;
}

struct Error {
  double wrong = 0, whole = 0;
  double relative() const { return std::sqrt(wrong / whole); }
};

using Allowed = std::map<std::string, double>;

/// Adds the errors of what `allowed` names; a training pass has other results too, such as running statistics.
void add_errors(std::map<std::string, Error>& errors, const TensorMap& rounded, const TensorMap& exact,
                const Allowed& allowed) {
  for (const auto& [name, tensor] : exact) {
    if (!allowed.contains(name)) continue;
    const std::vector<double> x = runtime::to_double(rounded.at(name)).data,
                              y = runtime::to_double(tensor).data;
    Error own;
    for (std::size_t i = 0; i < y.size(); ++i) {
      own.wrong += (x[i] - y[i]) * (x[i] - y[i]);
      own.whole += y[i] * y[i];
    }
    const bool is_gradient = name.starts_with("gradient/");
    for (const std::string& sum : {name, std::string(is_gradient ? "gradients" : "")}) {
      if (sum.empty()) continue;
      errors[sum].wrong += own.wrong;
      errors[sum].whole += own.whole;
    }
  }
}

std::unique_ptr<runtime::Engine> engine_of(const Golden& golden, const Backend& backend, bool narrow) {
  ir::Module module = models::build(golden.model, golden.batch);
  if (backend.rewrite) backend.rewrite(module);
  if (narrow) ir::mixed_precision(module, module.function("forward"), {});
  programs::add_grad_program(module, {});
  ir::verify(module);
  return start_engine(golden, backend, module);
}

nlohmann::json read_autocast() {
  std::ifstream file(golden_folder().parent_path() / "autocast.json");
  return nlohmann::json::parse(file);
}

}  // namespace

bool has_autocast(const std::string& name) {
  return read_autocast().at("cases").contains(name);
}

void check_against_autocast(
    const std::string& name, const std::function<void(ir::Module&)>& rewrite,
    const std::function<std::unique_ptr<runtime::Engine>(const ir::Module&)>& make_engine) {
  CAPTURE(name);
  const nlohmann::json autocast = read_autocast();
  const auto allowed = autocast.at("cases").at(name).get<Allowed>();
  const Golden golden = read_golden(name);
  const Backend jit{[](const ir::Module& module) { return runtime::make_jit_engine(module); }, ir::DType::f32,
                    rewrite};
  const Backend evaluator{[](const ir::Module& module) { return runtime::make_evaluator_engine(module); },
                          ir::DType::f32, rewrite};
  const Backend given{make_engine, ir::DType::f32, rewrite};
  const auto narrow = engine_of(golden, make_engine ? given : jit, true);
  const auto exact = engine_of(golden, evaluator, false);
  std::map<std::string, Error> errors;
  for (std::int64_t k = 0; k < autocast.at("batches").get<std::int64_t>(); ++k)
    add_errors(errors, run_batch(golden, *narrow, k), run_batch(golden, *exact, k), allowed);
  REQUIRE(errors.size() == allowed.size());
  for (const auto& [what, error] : errors) {
    INFO(fmt::format("{}: error {:.3e}, autocast's {:.3e}: {:.2f} of it", what, error.relative(),
                     allowed.at(what), error.relative() / allowed.at(what)));
    CHECK(error.relative() <= kAutocastFactor * allowed.at(what));
  }
}

}  // namespace rewire::parity
