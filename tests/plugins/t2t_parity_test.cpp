// T2T-ViT with performer and transformer layers between its steps, plain and with one strategy of each kind, against
// PyTorch in float64.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

std::string tokens_to_token() {
  const std::string model = GENERATE(as<std::string>{}, "performer", "transformer");
  const std::string option = GENERATE(as<std::string>{}, "plain", "decay", "decay_learnable", "orthogonal",
                                      "orthogonal_global", "augment", "skipless");
  return "t2t_" + model + "_" + option;
}

TEST_CASE("T2T-ViT computes and learns as in PyTorch, with every kind of strategy") {
  check_both_in_slice(tokens_to_token());
}

}  // namespace
}  // namespace rewire::parity
