// Self-distillation, plain and with one strategy of each kind, for given views, against PyTorch in float64: a step's loss and
// gradients, and what five steps make of student, teacher and centre.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("Self-distillation computes and learns as in PyTorch, with every kind of strategy") {
  const std::string model = GENERATE(as<std::string>{}, "even", "odd");
  const std::string option =
      GENERATE(as<std::string>{}, "plain", "decay", "decay_learnable", "orthogonal", "augment", "skipless");
  check_both_in_slice("dino_" + model + "_" + option);
}

}  // namespace
}  // namespace rewire::parity
