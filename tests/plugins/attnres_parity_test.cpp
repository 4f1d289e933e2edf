// Every option of attnres against the same network in PyTorch, in float64: logits, loss, every gradient, and
// where it trains something of its own twenty steps of AdamW.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT with the attnres plugin computes and learns as in PyTorch, with every option", "[whole]") {
  const std::string model = GENERATE(as<std::string>{}, "slim", "deep");
  const std::string option = GENERATE(as<std::string>{}, "", "_block", "_one_block", "_layers");
  const Golden golden = read_golden("vit_" + model + "_attnres" + option);
  CAPTURE(golden.name);
  check_both(golden);
  CHECK(golden.runs.contains("adamw") == (option == "" || option == "_block"));
}

TEST_CASE(
    "GPT-2 and Llama with attention residuals over blocks of three joins compute what they do in PyTorch") {
  for (const char* name : {"gpt2_odd_attnres_block", "llama_odd_attnres_block"})
    check_both(read_golden(name));
}

}  // namespace
}  // namespace rewire::parity
