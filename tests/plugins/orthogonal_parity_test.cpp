// A ViT with the orthogonal plugin against the same network in PyTorch, in float64: logits, loss, every
// gradient, twenty steps of AdamW and SGD.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT with the orthogonal plugin computes and learns as in PyTorch", "[whole]") {
  const std::string mode = GENERATE(as<std::string>{}, "feature", "global");
  const std::string model = GENERATE(as<std::string>{}, "token", "avg");
  const Golden golden = read_golden("vit_" + model + "_orthogonal_" + mode);
  check_both(golden);
}

TEST_CASE("Where the stream's squared norm is of the size of eps, it computes as in PyTorch") {
  const std::string model = GENERATE(as<std::string>{}, "slim", "odd");
  const std::string option = GENERATE(as<std::string>{}, "", "_global", "_eps");
  const Golden golden = read_golden("vit_" + model + "_orthogonal_tiny" + option);
  check_both(golden);
}

TEST_CASE("With a probability each block and step draws as the reference does, in training alone") {
  const std::string model = GENERATE(as<std::string>{}, "slim", "odd");
  const std::string option = GENERATE(as<std::string>{}, "", "_mlp");
  const Golden golden = read_golden("vit_" + model + "_orthogonal_probability" + option);
  CAPTURE(golden.name);
  // A reference that draws: one block of two in the first step, each pattern in some step.
  const std::vector<double> drawn = runtime::to_double(golden.tensors.at("drawn")).data;
  REQUIRE(drawn.size() == 40);
  CHECK(drawn[0] + drawn[1] == 1);
  std::set<std::pair<double, double>> patterns;
  for (std::size_t step = 0; step < 20; ++step) patterns.emplace(drawn[2 * step], drawn[2 * step + 1]);
  CHECK(patterns == std::set<std::pair<double, double>>{{0, 0}, {0, 1}, {1, 0}, {1, 1}});
  check_both(golden);
}

TEST_CASE("Of chosen blocks alone, and twice with other values on other sites, it computes as in PyTorch") {
  const std::string model = GENERATE(as<std::string>{}, "slim", "odd");
  const std::string option = GENERATE(as<std::string>{}, "layers", "twice");
  const Golden golden = read_golden("vit_" + model + "_orthogonal_" + option);
  CAPTURE(golden.name);
  check_both(golden);
}

/// The largest difference of two goldens' tensors.
double distance(const std::string& one, const std::string& other, const std::string& name = "logits") {
  const ir::Tensor a = runtime::to_double(read_golden(one).tensors.at(name));
  const ir::Tensor b = runtime::to_double(read_golden(other).tensors.at(name));
  double most = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) most = std::max(most, std::abs(a.data[i] - b.data[i]));
  return most;
}

TEST_CASE("The goldens tell the modes apart, plain joins, and one eps from another") {
  CHECK(distance("vit_token_orthogonal_feature", "vit_token_plain") > 0.01);
  CHECK(distance("vit_token_orthogonal_feature", "vit_token_orthogonal_global") > 0.01);
  CHECK(distance("vit_slim_orthogonal_tiny", "vit_slim_orthogonal_tiny_eps") > 0.01);
  CHECK(distance("vit_odd_orthogonal_tiny", "vit_odd_orthogonal_tiny_eps") > 0.01);
  // Goldens of one model have the same weights and images: what evaluation and training take of the draw
  // shows.
  for (const std::string model : {"vit_slim_", "vit_odd_"}) {
    CHECK(distance(model + "orthogonal_layers", model + "decay_orthogonal") > 0.01);
    CHECK(distance(model + "orthogonal_layers", model + "orthogonal_probability") > 0.01);
    CHECK(distance(model + "orthogonal_layers", model + "orthogonal_twice") > 0.01);
    for (const std::string other : {"orthogonal_layers", "orthogonal_twice", "orthogonal_probability_mlp"})
      CHECK(distance(model + "orthogonal_probability", model + other, "gradient/head.weight") > 1e-3);
  }
}

}  // namespace
}  // namespace rewire::parity
