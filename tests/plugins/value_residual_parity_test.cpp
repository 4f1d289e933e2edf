// Every option of value_residual against the same network in PyTorch, in float64: logits, loss, every
// gradient, and where it trains something of its own twenty steps of AdamW.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT with the value_residual plugin computes and learns as in PyTorch, with every option",
          "[whole]") {
  const std::string model = GENERATE(as<std::string>{}, "slim", "deep");
  const std::string option = GENERATE(as<std::string>{}, "", "_fixed", "_learnable", "_shared", "_sparse");
  const Golden golden = read_golden("vit_" + model + "_value_residual" + option);
  CAPTURE(golden.name);
  check_both(golden);
  CHECK(golden.runs.contains("adamw") == (option == "_learnable"));
}

}  // namespace
}  // namespace rewire::parity
