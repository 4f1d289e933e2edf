// Every option of denseformer against the same network in PyTorch, in float64: logits, loss, every gradient,
// and twenty steps of AdamW.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT with the denseformer plugin computes and learns as in PyTorch, with every option",
          "[whole]") {
  const std::string model = GENERATE(as<std::string>{}, "slim", "deep");
  const std::string option = GENERATE(as<std::string>{}, "", "_dilation", "_period", "_both", "_dynamic",
                                      "_dynamic_both", "_attn", "_layerscale");
  const Golden golden = read_golden("vit_" + model + "_denseformer" + option);
  CAPTURE(golden.name);
  check_both(golden);
  CHECK(golden.runs.contains("adamw") == (option.empty() || option == "_dynamic"));
}

TEST_CASE("GPT-2 and Llama with dynamic averages compute what they do in PyTorch") {
  for (const char* name : {"gpt2_odd_denseformer_dynamic", "llama_odd_denseformer_dynamic"})
    check_both(read_golden(name));
}

}  // namespace
}  // namespace rewire::parity
