// Every option of x0_lambdas against the same network in PyTorch, in float64: logits, loss, every gradient, and
// twenty steps with the rates, betas and decay of its own weights.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT with the x0_lambdas plugin computes and learns as in PyTorch, with every option",
          "[whole]") {
  const std::string name = GENERATE(as<std::string>{}, "slim_x0_lambdas", "deep_x0_lambdas",
                                    "deep_x0_lambdas_backout", "deep_x0_lambdas_layers");
  const Golden golden = read_golden("vit_" + name);
  CAPTURE(golden.name);
  check_both(golden);
  CHECK(golden.runs.contains("adamw") == (name != "deep_x0_lambdas_layers"));
}

TEST_CASE("GPT-2 and Llama with the x0_lambdas plugin compute what they do in PyTorch") {
  for (const char* name : {"gpt2_odd_x0_lambdas", "llama_odd_x0_lambdas"}) check_both(read_golden(name));
}

}  // namespace
}  // namespace rewire::parity
