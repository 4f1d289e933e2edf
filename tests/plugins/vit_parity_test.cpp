// ViTs with timm's options of whole networks, and the network of the paper on orthogonal updates, plain and with one
// strategy of each kind, against PyTorch in float64.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

/// tests/reference/generate.py says why there is no "registers_skipless".
std::string transformer() {
  return "vit_" + GENERATE(as<std::string>{}, "registers_plain", "registers_decay",
                           "registers_decay_learnable", "registers_orthogonal", "registers_orthogonal_global",
                           "registers_augment", "prefix_plain", "prefix_augment", "clip_plain",
                           "clip_orthogonal", "clip_augment", "clip_skipless", "bare_plain", "bare_skipless",
                           "quick_plain", "distilled_plain", "oru_plain", "oru_decay", "oru_decay_learnable",
                           "oru_orthogonal", "oru_orthogonal_global", "oru_augment", "oru_skipless");
}

TEST_CASE("A ViT of other options computes and learns as in PyTorch, with every kind of strategy") {
  check_both_in_slice(transformer());
}

}  // namespace
}  // namespace rewire::parity
