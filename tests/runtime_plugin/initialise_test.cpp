// The initialise hook: order, filters, draws, and that a failure leaves the state as it was.
#include "ir/philox.h"
#include "tests/runtime_plugin/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

std::vector<double> values_of(const runtime::TensorMap& state, const std::string& name) {
  return runtime::to_double(state.at(name)).data;
}

/// What gain writes: w + factor * normal, stored as f32.
std::vector<double> expected(std::vector<double> w, const std::string& name, std::uint64_t seed,
                             double factor) {
  const ir::PhiloxStream stream{seed, 0, ir::stream_hash("initialise.gain." + name)};
  for (std::size_t i = 0; i < w.size(); ++i) {
    w[i] = ir::round_to(ir::DType::f32, w[i] + factor * stream.normal(i));
  }
  return w;
}

TEST_CASE("Initialise writes the weights of the joins that pass, and no others") {
  const ir::Module module = rewritten(residual_net({}), {});
  const std::uint64_t seed = 5;
  const runtime::TensorMap fresh = runtime::initialise(module, seed);
  runtime::TensorMap state;
  for (const auto& [name, tensor] : fresh) state.emplace(name, tensor.clone());
  runtime::initialise_plugins(module, {load("gain", "factor=3,sites=attn")}, seed, state);
  REQUIRE(state.size() == fresh.size());
  int changed = 0;
  for (const auto& [name, tensor] : fresh) {
    CAPTURE(name);
    const std::vector<double> before = values_of(fresh, name);
    if (name.ends_with("attn.proj.weight")) {
      ++changed;
      CHECK(values_of(state, name) == expected(before, name, seed, 3));
    } else {
      CHECK(values_of(state, name) == before);
    }
  }
  CHECK(changed == 2);
}

TEST_CASE("Plugins initialise in order, each seeing what the one before wrote") {
  const ir::Module module = residual_net({});
  runtime::TensorMap state = runtime::initialise(module, 5);
  const std::string name = "blocks.1.mlp.fc2.weight";
  const std::vector<double> once = expected(values_of(state, name), name, 5, 3);
  runtime::initialise_plugins(module, {load("gain", "factor=3"), load("gain", "factor=1")}, 5, state);
  CHECK(values_of(state, name) == expected(once, name, 5, 1));
}

TEST_CASE("A plugin that starts in a later epoch does not initialise") {
  const ir::Module module = residual_net({});
  runtime::TensorMap state = runtime::initialise(module, 5);
  const std::string name = "blocks.1.mlp.fc2.weight";
  const std::vector<double> before = values_of(state, name);
  runtime::initialise_plugins(module, {load("gain", "from_epoch=1")}, 5, state);
  CHECK(values_of(state, name) == before);
}

TEST_CASE("Plugins without the hook are passed over, and the wrapper's hook sees added weights") {
  const std::vector<runtime::PluginHandle> plugins = {load("every_function"), load("plain")};
  const ir::Module module = rewritten(residual_net({}), plugins);
  runtime::TensorMap state = runtime::initialise(module, 5);
  CHECK_NOTHROW(runtime::initialise_plugins(module, plugins, 5, state));
}

TEST_CASE("A failing initialise leaves the state as it was and names the plugin") {
  const ir::Module module =
      residual_net({});  // every_function wants the weights that its rewrite would have added
  runtime::TensorMap state = runtime::initialise(module, 5);
  const std::string name = "blocks.1.mlp.fc2.weight";
  const std::vector<double> before = values_of(state, name);
  CHECK(message_of<UserError>([&] {
          runtime::initialise_plugins(module, {load("gain"), load("every_function")}, 5, state);
        }) == "plugin 'every_function': the added weights are listed");
  CHECK(values_of(state, name) == before);
}

}  // namespace
}  // namespace rewire::test
