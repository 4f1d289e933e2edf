// Every option of layerscale against the same network in PyTorch, in float64: logits, loss, every gradient,
// and twenty steps of AdamW.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT with the layerscale plugin computes and learns as in PyTorch, with every option",
          "[whole]") {
  const std::string model = GENERATE(as<std::string>{}, "slim", "deep");
  const std::string option =
      GENERATE(as<std::string>{}, "", "_rezero", "_rezero_mlp", "_skipinit", "_orthogonal");
  const Golden golden = read_golden("vit_" + model + "_layerscale" + option);
  CAPTURE(golden.name);
  check_both(golden);
  CHECK(golden.runs.contains("adamw") == (option != "_rezero_mlp" && option != "_orthogonal"));
}

}  // namespace
}  // namespace rewire::parity
