// Every option of laurel against the same network in PyTorch, in float64: logits, loss, every gradient, and
// twenty steps of AdamW.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT with the laurel plugin computes and learns as in PyTorch, with every option", "[whole]") {
  const std::string model = GENERATE(as<std::string>{}, "slim", "deep");
  const std::string option = GENERATE(as<std::string>{}, "", "_previous", "_softmax", "_none");
  const Golden golden = read_golden("vit_" + model + "_laurel" + option);
  CAPTURE(golden.name);
  check_both(golden);
  CHECK(golden.runs.contains("adamw") == option.empty());
}

TEST_CASE("GPT-2 and Llama with the laurel plugin compute what they do in PyTorch") {
  for (const char* name : {"gpt2_odd_laurel", "llama_odd_laurel"}) check_both(read_golden(name));
}

}  // namespace
}  // namespace rewire::parity
