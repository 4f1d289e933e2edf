// Every option of hyper against the same network in PyTorch, in float64: logits, loss, every gradient, and
// where it trains something of its own twenty steps of AdamW.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT with the hyper plugin computes and learns as in PyTorch, with every option", "[whole]") {
  const std::string model = GENERATE(as<std::string>{}, "slim", "deep");
  const std::string option = GENERATE(as<std::string>{}, "", "_static", "_static_two", "_one", "_mhc",
                                      "_mhc_two", "_mhc_lite", "_mhc_lite_three", "_layers");
  const Golden golden = read_golden("vit_" + model + "_hyper" + option);
  CAPTURE(golden.name);
  check_golden(golden, rewriting_evaluator(golden), kExact);
  // In a dynamic network some gradients of the scales nearly cancel, which f32 has not the digits for;
  // `rewire plugin test` holds them to a bound that it measures.
  if (option.find("static") != std::string::npos || option.find("mhc") != std::string::npos)
    check_gradients(golden, compiled(golden), kSingle);
  CHECK(golden.runs.contains("adamw") ==
        (option == "" || option == "_static" || option == "_mhc" || option == "_mhc_lite"));
}

TEST_CASE("GPT-2 and Llama with lanes that permutations mix compute what they do in PyTorch") {
  for (const char* name : {"gpt2_odd_hyper_mhc_lite", "llama_odd_hyper_mhc_lite"})
    check_both(read_golden(name));
}

}  // namespace
}  // namespace rewire::parity
