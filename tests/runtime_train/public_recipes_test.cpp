// Twenty steps from a file with the names of public code, by that code's rules (tests/reference/recipes.py): fine-tuning as
// MAE and PVT have it, and self-distillation as DINO has it.
#include <nlohmann/json.hpp>

#include <cmath>
#include <string>

#include "programs/programs.h"
#include "runtime/exec/make_engine.h"
#include "runtime/io/safetensors.h"
#include "runtime/network/network.h"
#include "runtime/network/start_weights.h"
#include "runtime/network/weights.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

constexpr double kAllowed = 1e-4;

/// Those whose names begin so, by the rest of their names.
TensorMap part(const SafetensorsFile& file, const std::string& prefix) {
  TensorMap tensors;
  for (const auto& [name, tensor] : file.tensors) {
    if (name.starts_with(prefix)) tensors.emplace(name.substr(prefix.size()), tensor.clone());
  }
  return tensors;
}

/// What step `step` takes of [steps, …].
HostTensor slice_of(const HostTensor& all, std::int64_t step) {
  ir::TensorType type = all.type();
  type.shape.erase(type.shape.begin());
  HostTensor slice(type);
  const std::size_t bytes = slice.bytes().size();
  std::ranges::copy(all.bytes().subspan(static_cast<std::size_t>(step) * bytes, bytes),
                    slice.bytes().begin());
  return slice;
}

double squares(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return sum;
}

std::vector<double> minus(std::vector<double> a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

TEST_CASE("From a file with public names, steps are those of the public code of MAE, PVT and DINO") {
  const std::string name = GENERATE(as<std::string>{}, "mae", "pvt", "dino");
  CAPTURE(name);
  const SafetensorsFile golden =
      read_safetensors(std::string(REWIRE_GOLDENS) + "/recipe_" + name + ".safetensors");
  const auto told = nlohmann::json::parse(golden.metadata.at("case"));
  const test::TemporaryFolder folder;
  const std::string path = folder.file("public.safetensors");
  write_safetensors(path, part(golden, "file/"));
  auto settings = told.at("settings").get<std::vector<std::string>>();
  settings.push_back("train.weights=" + path);
  NetworkRequest request;
  request.model = told.at("model");
  request.settings = settings;
  const Network network = resolve_network(request);
  const TensorMap inputs = part(golden, "input/");
  const std::vector<double> losses = to_double(golden.tensors.at("losses")).data,
                            rates = to_double(golden.tensors.at("rates")).data;
  const auto steps = static_cast<std::int64_t>(losses.size());

  ir::Module module = training_module(network, network.recipe.train.batch);
  programs::add_step_program(
      module, train_options(network.recipe,
                            static_cast<double>(steps) / static_cast<double>(network.recipe.train.epochs)));
  TensorMap weights =
      read_start_weights(network.recipe, module, original_module(network, 1), origin_of(network));
  weights.merge(part(golden, "start/"));
  weights.merge(fresh_weights(module, {}, 0));  // norms of a new head
  const auto engine = make_engine(engine_names().front(), module);
  start_state(*engine, module, weights, 0);
  for (std::int64_t step = 0; step < steps; ++step) {
    CAPTURE(step);
    TensorMap given;
    for (const auto& [input, tensor] : inputs) given.emplace(input, slice_of(tensor, step));
    const TensorMap got = engine->run("step", given);
    const auto at = static_cast<std::size_t>(step);
    CHECK(to_double(got.at("loss")).scalar() == Approx(losses[at]).epsilon(kAllowed));
    CHECK(to_double(got.at("lr")).scalar() == Approx(rates[at]).epsilon(1e-6));  // of f32
  }
  double error = 0, way = 0;
  for (const auto& [weight, tensor] : part(golden, "weight/")) {
    CAPTURE(weight);
    const std::vector<double> want = to_double(tensor).data;
    std::vector<double> off = minus(to_double(engine->read_state(weight)).data, want);
    // The softmax takes the key's bias away again: it has no gradient but rounding errors, which AdamW divides by
    // themselves.
    const auto n = static_cast<std::ptrdiff_t>(off.size());
    if (weight.ends_with("attn.qkv.bias")) std::fill_n(off.begin() + n / 3, n / 3, 0.0);
    if (weight.ends_with("attn.kv.bias")) std::fill_n(off.begin(), n / 2, 0.0);
    error += squares(off);
    way += squares(minus(want, to_double(weights.at(weight)).data));
  }
  INFO("the error of all weights over the way that they went: " << std::sqrt(error / way));
  REQUIRE(way > 0);
  CHECK(std::sqrt(error / way) <= kAllowed);
}

}  // namespace
}  // namespace rewire::runtime
