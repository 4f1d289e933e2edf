// Every option of decay against the same network in PyTorch, in float64: logits, loss, every gradient, and
// where alphas are trained twenty steps of AdamW.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT with the decay plugin computes and learns as in PyTorch, with every option") {
  const std::string model = GENERATE(as<std::string>{}, "slim", "odd");
  const std::string option =
      GENERATE(as<std::string>{}, "decay", "decay_paper_literal", "decay_per_block", "decay_constant",
               "decay_learnable", "decay_learnable_undecayed", "decay_both", "decay_branch", "decay_twice");
  const Golden golden = read_golden("vit_" + model + "_" + option);
  check_gradients(golden, rewriting_evaluator(golden), kExact);
  CHECK(golden.runs.contains("adamw") == (option.find("learnable") != std::string::npos));
  for (const auto& [run, options] : golden.runs) check_run(golden, run, rewriting_evaluator(golden), kExact);
}

}  // namespace
}  // namespace rewire::parity
