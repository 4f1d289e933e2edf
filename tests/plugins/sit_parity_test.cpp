// The interpolant transformer and its objective, without and with the skips from its first half to its second, plain and with
// decayed shortcuts through the whole network, for given noise, times and dropped labels, against PyTorch in float64.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("Interpolant transformers compute and learn as in PyTorch, with and without decay") {
  const std::string model = GENERATE(as<std::string>{}, "none", "unet", "bare");
  const std::string option = GENERATE(as<std::string>{}, "plain", "decay");
  check_both(read_golden("sit_" + model + "_" + option));
}

}  // namespace
}  // namespace rewire::parity
