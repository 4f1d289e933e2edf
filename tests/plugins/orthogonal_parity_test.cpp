// A ViT with the orthogonal plugin against the same network in PyTorch, in float64: logits, loss, every
// gradient, twenty steps of AdamW.
#include <algorithm>
#include <cmath>
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT with the orthogonal plugin computes and learns as in PyTorch") {
  const std::string mode = GENERATE(as<std::string>{}, "feature", "global");
  const std::string model = GENERATE(as<std::string>{}, "token", "avg");
  const Golden golden = read_golden("vit_" + model + "_orthogonal_" + mode);
  check_gradients(golden, rewriting_evaluator(golden), kExact);
  check_run(golden, "adamw", rewriting_evaluator(golden), kExact);
}

TEST_CASE("The goldens tell the modes apart, and from plain joins") {
  const Golden feature = read_golden("vit_token_orthogonal_feature");
  for (const char* other : {"vit_token_plain", "vit_token_orthogonal_global"}) {
    const ir::Tensor a = runtime::to_double(feature.tensors.at("logits"));
    const ir::Tensor b = runtime::to_double(read_golden(other).tensors.at("logits"));
    double distance = 0;
    for (std::size_t i = 0; i < a.data.size(); ++i)
      distance = std::max(distance, std::abs(a.data[i] - b.data[i]));
    CHECK(distance > 0.01);
  }
}

}  // namespace
}  // namespace rewire::parity
