// The masked autoencoder, without and with what its decoder reads of the encoder's blocks, plain and with one strategy of each
// kind on the encoder, for given masks, against PyTorch in float64.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("Masked autoencoders compute and learn as in PyTorch, with every kind of strategy") {
  const std::string model = GENERATE(as<std::string>{}, "none", "unet", "paper");
  const std::string option =
      GENERATE(as<std::string>{}, "plain", "decay", "orthogonal", "augment", "skipless");
  check_both_in_slice("mae_" + model + "_" + option);
}

}  // namespace
}  // namespace rewire::parity
