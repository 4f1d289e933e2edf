// A ViT without shortcuts against the same network in PyTorch, in float64: logits, loss, every gradient,
// twenty steps of SGD.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT with the skipless plugin computes as in PyTorch", "[whole]") {
  const std::string model = GENERATE(as<std::string>{}, "slim", "odd");
  const std::string option = GENERATE(as<std::string>{}, "skipless", "skipless_attn", "skipless_mlp");
  const Golden golden = read_golden("vit_" + model + "_" + option);
  check_both(golden);
}

}  // namespace
}  // namespace rewire::parity
