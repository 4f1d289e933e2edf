// Every option of decay against the same network in PyTorch, in float64: logits, loss, every gradient, twenty steps
// of SGD, and where alphas are trained of AdamW.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT with the decay plugin computes and learns as in PyTorch, with every option", "[whole]") {
  const std::string model = GENERATE(as<std::string>{}, "slim", "odd");
  const std::string option =
      GENERATE(as<std::string>{}, "decay", "decay_paper_literal", "decay_per_block", "decay_constant",
               "decay_learnable", "decay_learnable_undecayed", "decay_both", "decay_branch", "decay_twice");
  const Golden golden = read_golden("vit_" + model + "_" + option);
  check_both(golden);
  CHECK(golden.runs.contains("adamw") == (option.find("learnable") != std::string::npos));
}

}  // namespace
}  // namespace rewire::parity
