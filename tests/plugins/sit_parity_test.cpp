// The interpolant transformer and its objective, without and with the skips from its first half to its second, plain and with
// decayed shortcuts through the whole network, for given noise, times and dropped labels, against PyTorch in float64.
#include <algorithm>
#include <string>

#include "models/model.h"
#include "runtime/network/initialise.h"
#include "runtime/network/weights.h"
#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("Interpolant transformers compute and learn as in PyTorch, with and without decay") {
  const std::string model = GENERATE(as<std::string>{}, "none", "unet", "bare");
  const std::string option = GENERATE(as<std::string>{}, "plain", "decay");
  check_both_in_slice("sit_" + model + "_" + option);
}

TEST_CASE(
    "Where gates start at 0, decay starts no second factor at 0, which would leave neither a gradient") {
  ir::Module module = models::build({"sit_tiny_28", {{"depth", std::int64_t{2}}}}, 1);
  std::vector<runtime::PluginHandle> plugins;
  plugins.push_back(runtime::load_plugin(runtime::parse_plugin_spec("decay:alpha_min=0.6"), {}));
  runtime::apply_plugins(module, plugins, 0);
  const runtime::TensorMap weights = runtime::fresh_weights(module, plugins, 0, 0);
  for (const char* name : {"blocks.0.attn.proj.weight", "blocks.1.mlp.fc2.weight"}) {
    CAPTURE(name);
    CHECK(std::ranges::any_of(weights.at(name).as<float>(), [](float w) { return w != 0; }));
  }
}

}  // namespace
}  // namespace rewire::parity
