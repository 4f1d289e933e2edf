// Every option of postnorm against the same network in PyTorch, in float64: logits, loss, every gradient, and
// where it trains something of its own twenty steps of AdamW.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT with the postnorm plugin computes and learns as in PyTorch, with every option", "[whole]") {
  const std::string model = GENERATE(as<std::string>{}, "slim", "deep");
  const std::string option =
      GENERATE(as<std::string>{}, "", "_deepnorm", "_keel", "_peri", "_peri_rms", "_attn", "_layerscale");
  const Golden golden = read_golden("vit_" + model + "_postnorm" + option);
  CAPTURE(golden.name);
  check_both(golden);
  CHECK(golden.runs.contains("adamw") == (option == "_keel" || option == "_peri"));
}

TEST_CASE("A norm without weights stands behind the sum as one with weights does") {
  for (const char* name : {"vit_oru_postnorm", "vit_bare_postnorm_deepnorm"}) {
    const Golden golden = read_golden(name);
    check_both(golden);
  }
}

TEST_CASE(
    "GPT-2 with its layer norms after the sum and Llama with its RMS norms compute what they do in PyTorch") {
  for (const char* name : {"gpt2_odd_postnorm", "llama_odd_postnorm_postln", "llama_odd_postnorm_keel",
                           "llama_odd_postnorm_peri"})
    check_both(read_golden(name));
}

}  // namespace
}  // namespace rewire::parity
