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

TEST_CASE("Where the stream's squared norm is of the size of eps, it computes as in PyTorch") {
  const std::string model = GENERATE(as<std::string>{}, "slim", "odd");
  const std::string option = GENERATE(as<std::string>{}, "", "_global", "_eps");
  const Golden golden = read_golden("vit_" + model + "_orthogonal_tiny" + option);
  check_gradients(golden, rewriting_evaluator(golden), kExact);
}

/// The largest difference of two goldens' logits.
double distance(const std::string& one, const std::string& other) {
  const ir::Tensor a = runtime::to_double(read_golden(one).tensors.at("logits"));
  const ir::Tensor b = runtime::to_double(read_golden(other).tensors.at("logits"));
  double most = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) most = std::max(most, std::abs(a.data[i] - b.data[i]));
  return most;
}

TEST_CASE("The goldens tell the modes apart, plain joins, and one eps from another") {
  CHECK(distance("vit_token_orthogonal_feature", "vit_token_plain") > 0.01);
  CHECK(distance("vit_token_orthogonal_feature", "vit_token_orthogonal_global") > 0.01);
  CHECK(distance("vit_slim_orthogonal_tiny", "vit_slim_orthogonal_tiny_eps") > 0.01);
  CHECK(distance("vit_odd_orthogonal_tiny", "vit_odd_orthogonal_tiny_eps") > 0.01);
}

}  // namespace
}  // namespace rewire::parity
