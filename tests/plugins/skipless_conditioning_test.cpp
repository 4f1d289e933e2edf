// The paper's argument, measured: without shortcuts attention is badly conditioned, and the initialisation
// mends much of it. One block of a ViT, on noise, three seeds.
#include <algorithm>
#include <cmath>

#include "models/model.h"
#include "runtime/measure/conditioning.h"
#include "runtime/verify/perturbed_state.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

/// The block of a network of depth 1.
runtime::BlockConditioning conditioning_of(const std::vector<std::string>& specs, std::uint64_t seed) {
  ir::Selection options{"vit"};
  options.set("dim", 96).set("heads", 2).set("depth", 1).set("patch", 14);  // 5 tokens
  const ir::Module module = rewritten(models::build(options, 4), specs, seed);
  const ir::Function& forward = module.function("forward");
  const runtime::HostTensor images =
      runtime::to_host(runtime::random_argument(module, forward, forward.arguments.at(0), seed));
  return runtime::measure_conditioning(module, started(module, specs, seed), images, {"jit", seed, 480})
      .blocks.at(0);
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value / static_cast<double>(values.size());
  return sum;
}

double of_attention(const runtime::BlockConditioning& block) {
  REQUIRE(block.joins.at(0).site == "attn");
  return block.joins[0].jacobian.value();
}

TEST_CASE("Attention alone is badly conditioned; the initialisation mends maps, W_V W_O and Jacobian") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    const runtime::BlockConditioning skip = conditioning_of({}, seed),
                                     plain = conditioning_of({"skipless:reinit=false"}, seed),
                                     ours = conditioning_of({"skipless"}, seed);
    CHECK(of_attention(skip) < 10);
    CHECK(of_attention(ours) < of_attention(plain) / 100);
    CHECK(of_attention(skip) < of_attention(ours));
    CHECK(mean(ours.attention) < mean(plain.attention) / 10);
    CHECK(mean(plain.attention) == mean(skip.attention));  // the same weights see the same stream
    CHECK(ours.value_output.value() == Approx(1).epsilon(1e-4));
    CHECK(plain.value_output.value() > 100);
    // From stream to stream: a norm takes two directions of every token away, which nothing brings back.
    CHECK(std::isfinite(skip.jacobian.value()));
    CHECK(std::isinf(plain.jacobian.value()));
    CHECK(std::isinf(ours.jacobian.value()));
  }
}

}  // namespace
}  // namespace rewire::test
