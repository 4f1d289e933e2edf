// MixUp and CutMix against their definitions, and the statistics of what they draw.
#include <boost/math/distributions/beta.hpp>
#include <cmath>

#include "ir/error.h"
#include "runtime/data/vision/transform.h"
#include "tests/runtime_data/same_size.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kRows = 6, kColumns = 7;
const ir::Shape kMixed = {2, kRows, kColumns};
constexpr std::size_t kImageSize = 2 * kRows * kColumns;

struct Mixed {
  std::vector<float> images, targets;
};

/// Image i has the pixels 100 i + place, and label i: its row of the targets tells its shares.
Mixed mixed(const TransformChain& chain, std::int64_t batch, std::int64_t epoch, std::int64_t index) {
  Mixed m;
  for (std::size_t i = 0; i < static_cast<std::size_t>(batch); ++i) {
    for (std::size_t p = 0; p < kImageSize; ++p) m.images.push_back(static_cast<float>(100 * i + p));
    for (std::size_t k = 0; k < static_cast<std::size_t>(batch); ++k) m.targets.push_back(i == k ? 1 : 0);
  }
  chain.apply_to_batch(m.images, m.targets, batch, epoch, index);
  return m;
}

TransformChain chain_of(double mixup, double cutmix, double probability = 1, double switch_prob = 0.5) {
  return {{{"mixup", mixup}, {"cutmix", cutmix}, {"mix_prob", probability}, {"mix_switch_prob", switch_prob}},
          same_size(kMixed),
          11};
}

TEST_CASE("MixUp blends each image and target with that at the other end of the batch") {
  const TransformChain chain = chain_of(0.8, 0);
  REQUIRE(chain.changes_batches());
  for (const std::int64_t batch : {1, 2, 5, 6}) {
    const auto count = static_cast<std::size_t>(batch);
    const Mixed m = mixed(chain, batch, 2, 3);
    const double lambda = batch == 1 ? 1 : m.targets[0];
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t partner = count - 1 - i;
      CAPTURE(batch, i, lambda);
      for (std::size_t k = 0; k < count; ++k) {
        const double expected = (k == i ? lambda : 0) + (k == partner ? 1 - lambda : 0);
        CHECK(m.targets[i * count + k] == Approx(expected).margin(1e-6));
      }
      for (std::size_t p = 0; p < kImageSize; ++p) {
        const auto own = static_cast<double>(100 * i + p), other = static_cast<double>(100 * partner + p);
        CHECK(m.images[i * kImageSize + p] == Approx(lambda * own + (1 - lambda) * other).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("CutMix copies one box, and the shares are those of its area") {
  const TransformChain chain = chain_of(0, 1);
  for (std::int64_t index = 0; index < 200; ++index) {
    const Mixed m = mixed(chain, 4, 0, index);
    const double lambda = m.targets[0];
    CHECK(m.targets[3] == Approx(1 - lambda).margin(1e-6));
    for (std::size_t i = 0; i < 4; ++i) {
      std::size_t top = kRows, bottom = 0, left = kColumns, right = 0, copied = 0;
      for (std::size_t p = 0; p < kImageSize; ++p) {
        const float value = m.images[i * kImageSize + p];
        if (value == static_cast<float>(100 * i + p)) continue;
        CHECK(value == static_cast<float>(100 * (3 - i) + p));
        const std::size_t y = p / kColumns % kRows, x = p % kColumns;
        top = std::min(top, y);
        bottom = std::max(bottom, y + 1);
        left = std::min(left, x);
        right = std::max(right, x + 1);
        ++copied;
      }
      if (copied > 0) CHECK(copied == 2 * (bottom - top) * (right - left));
      CHECK(static_cast<double>(copied) / kImageSize == Approx(1 - lambda).margin(1e-6));
    }
  }
}

TEST_CASE("Shares are drawn from the Beta distribution, kinds by their probabilities") {
  constexpr int kDraws = 20'000, kBins = 20;
  const TransformChain chain = chain_of(0.4, 1, 0.75, 0.3);
  const boost::math::beta_distribution<double> distribution(0.4, 0.4);
  std::vector<int> bins(kBins);
  int cut = 0, blended = 0, left_alone = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Mixed m = mixed(chain, 2, i % 4, i);
    const float first = m.images[0], at_one = m.images[1];
    if (m.targets[0] == 1 && first == 0 && at_one == 1) {
      ++left_alone;  // or a box without pixels
    } else if (std::abs(m.targets[1] * 100 - first) < 1e-3F &&
               std::abs(m.targets[1] * 100 + 1 - at_one) < 1e-3F) {
      ++blended;
      const double u = boost::math::cdf(distribution, std::clamp<double>(m.targets[0], 0, 1));
      ++bins[static_cast<std::size_t>(std::min(u * kBins, kBins - 1.0))];
    } else {
      ++cut;
    }
  }
  // 0.75 x 0.7 are blended; boxes of less than two pixels a side are empty, so that cuts are fewer than 0.75 x 0.3.
  CHECK(blended / double{kDraws} == Approx(0.525).margin(0.015));
  CHECK(cut / double{kDraws} < 0.235);
  CHECK(cut / double{kDraws} > 0.17);
  CHECK(left_alone > kDraws / 5);
  double chi_squared = 0;
  const double expected = blended / double{kBins};
  for (const int count : bins) chi_squared += std::pow(count - expected, 2) / expected;
  // 19 degrees of freedom; shares of less than f32 resolves fall into the outermost bins.
  CHECK(chi_squared < 19 + 5 * std::sqrt(2 * 19.0));
}

TEST_CASE("Shares of the smallest and the greatest alpha lie between 0 and 1") {
  for (const double alpha : {1e-3, 0.01, 0.1, 0.5, 2.0, 30.0, 1000.0}) {
    const TransformChain chain = chain_of(alpha, 0);
    double sum = 0;
    for (std::int64_t index = 0; index < 500; ++index) {
      const float lambda = mixed(chain, 2, 0, index).targets[0];
      CHECK(lambda >= 0);
      CHECK(lambda <= 1);
      sum += lambda;
    }
    CAPTURE(alpha);
    CHECK(sum / 500 == Approx(0.5).margin(0.12));  // five deviations of a coin's mean
    // The ends of what a uniform number can be.
    const boost::math::beta_distribution<double> distribution(alpha, alpha);
    CHECK(boost::math::quantile(distribution, 0.0) == 0);
    CHECK(boost::math::quantile(distribution, 1 - 0x1p-32) <= 1);
    CHECK(boost::math::quantile(distribution, 0x1p-32) >= 0);
  }
  CHECK(test::message_of<UserError>([] { chain_of(1e-4, 0); }) ==
        "transforms.mixup is 0.0001; it must be 0, or at least 0.001");
}

TEST_CASE("Mixing is a function of seed, epoch and batch, and off where nothing asks for it") {
  const TransformChain chain = chain_of(1, 1);
  CHECK(mixed(chain, 4, 1, 2).images == mixed(chain_of(1, 1), 4, 1, 2).images);
  CHECK(mixed(chain, 4, 1, 2).targets != mixed(chain, 4, 1, 3).targets);
  CHECK(mixed(chain, 4, 1, 2).targets != mixed(chain, 4, 2, 2).targets);
  CHECK_FALSE(chain_of(0, 0).changes_batches());
  CHECK_FALSE(TransformChain({{"mixup", 1.0}}, same_size(kMixed, false), 0).changes_batches());
}

}  // namespace
}  // namespace rewire::runtime
