// A pyramid vision transformer, plain and with one strategy of each kind, against PyTorch in float64: streams of
// several widths, attention with fewer keys than queries.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

/// tests/reference/pvt.py says why there is no "three_skipless".
std::string pyramid() {
  return "pvt_" + GENERATE(as<std::string>{}, "two_plain", "two_decay", "two_decay_learnable",
                           "two_orthogonal", "two_orthogonal_global", "two_augment", "two_augment_dense",
                           "two_skipless", "two_skipless_mlp", "two_layerscale", "three_plain", "three_decay",
                           "three_decay_learnable", "three_orthogonal", "three_orthogonal_global",
                           "three_augment", "three_augment_dense", "three_skipless_mlp", "three_layerscale");
}

TEST_CASE("A pyramid of stages computes and learns as in PyTorch, with every kind of strategy") {
  check_both_in_slice(pyramid());
}

}  // namespace
}  // namespace rewire::parity
