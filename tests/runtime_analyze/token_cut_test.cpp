// Cuts and colours of pictures that were planted.
#include "runtime/analyze/token_cut.h"

#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "ir/philox.h"
#include "runtime/analyze/pca_map.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::test::cuts {
namespace {

using runtime::PixelBox;

constexpr std::int64_t kRows = 6, kColumns = 8, kWidth = 5;

/// Features near one direction where the plan has '#', near another elsewhere, of different lengths.
std::vector<float> planted(const std::vector<std::string>& plan) {
  const ir::PhiloxStream noise{4, 0, ir::stream_hash("noise")};
  std::vector<float> features;
  for (std::size_t i = 0; i < static_cast<std::size_t>(kRows * kColumns); ++i) {
    const bool inside = plan[i / kColumns][i % kColumns] == '#';
    const double length = 1 + noise.uniform(1000 + i);
    for (std::size_t j = 0; j < kWidth; ++j) {
      const double direction = j == (inside ? 0U : 1U) ? 1 : 0;
      features.push_back(static_cast<float>(length * (direction + .05 * noise.normal(i * kWidth + j))));
    }
  }
  return features;
}

TEST_CASE("A cut finds the planted object, and its box is that of the part that holds the seed") {
  const std::vector<std::string> plan = {"........", "..###...", "..###...",
                                         "...##...", "........", "#......."};
  const runtime::TokenCut cut = runtime::token_cut(planted(plan), kRows, kColumns, {});
  for (std::size_t i = 0; i < cut.mask.size(); ++i)
    CHECK(cut.mask[i] == (plan[i / kColumns][i % kColumns] == '#' ? 1 : 0));
  const bool in_corner = cut.seed == 5 * kColumns;
  CHECK(cut.box == (in_corner ? PixelBox{0, 5, 1, 6} : PixelBox{2, 1, 5, 4}));
  // Without the corner there is one part.
  std::vector<std::string> one = plan;
  one[5][0] = '.';
  CHECK(runtime::token_cut(planted(one), kRows, kColumns, {}).box == PixelBox{2, 1, 5, 4});
}

TEST_CASE("Where all patches belong together, all of them are the object") {
  const runtime::TokenCut cut = runtime::token_cut(
      planted(std::vector<std::string>(kRows, std::string(kColumns, '#'))), kRows, kColumns, {});
  CHECK(std::ranges::count(cut.mask, 1) == kRows * kColumns);
  CHECK(cut.box == PixelBox{0, 0, kColumns, kRows});
}

TEST_CASE("The vector of a cut solves (D - E) y = lambda D y, at right angles to the constant one") {
  const std::vector<std::string> plan = {"........", "..###...", "..###...",
                                         "..###...", "........", "........"};
  const std::vector<float> features = planted(plan);
  const runtime::TokenCut cut = runtime::token_cut(features, kRows, kColumns, {.tau = .4});
  const std::size_t n = kRows * kColumns;
  const auto dot = [&](std::size_t i, std::size_t j) {
    double sum = 0;
    for (std::size_t k = 0; k < kWidth; ++k)
      sum += static_cast<double>(features[i * kWidth + k]) * static_cast<double>(features[j * kWidth + k]);
    return sum;
  };
  std::vector<double> degree(n), left(n);
  double lambda_over = 0, lambda_under = 0, constant = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double edge = dot(i, j) / std::sqrt(dot(i, i) * dot(j, j)) > .4 ? 1 : 1e-5;
      degree[i] += edge;
      left[i] -= edge * cut.vector[j];
    }
    left[i] += degree[i] * cut.vector[i];
    lambda_over += cut.vector[i] * left[i];
    lambda_under += cut.vector[i] * degree[i] * cut.vector[i];
    constant += degree[i] * cut.vector[i];
  }
  const double lambda = lambda_over / lambda_under;
  CHECK(lambda > 0);
  CHECK(lambda < .01);  // 9 x 39 edges of 1e-5 hold the two parts together
  CHECK(constant == Approx(0).margin(1e-9));
  for (std::size_t i = 0; i < n; ++i)
    CHECK(left[i] == Approx(lambda * degree[i] * cut.vector[i]).margin(1e-10));
}

TEST_CASE("Boxes overlap by intersection over union, and an image is found above one half") {
  CHECK(runtime::box_iou({0, 0, 4, 4}, {2, 2, 6, 6}) == Approx(4.0 / 28));
  CHECK(runtime::box_iou({0, 0, 2, 2}, {2, 0, 4, 2}) == 0);
  CHECK(runtime::box_iou({0, 0, 0, 0}, {0, 0, 0, 0}) == 0);
  const std::vector<PixelBox> found = {{0, 0, 4, 4}, {0, 0, 4, 4}, {0, 0, 2, 2}};
  // Exactly one half is no hit; any of several boxes is one.
  const std::vector<std::vector<PixelBox>> truth = {{{0, 0, 4, 2}}, {{9, 9, 12, 12}, {0, 0, 4, 3}}, {}};
  CHECK(runtime::correct_localisation(found, truth) == Approx(1.0 / 3));
  CHECK(message_of<UserError>([] { runtime::token_cut(std::vector<float>{1}, 1, 1, {}); }) ==
        "tokencut: an image has 1 patch; a cut takes two or more");
}

TEST_CASE("Principal components are the directions in which rows vary, the widest first") {
  // Along (0, 3, 4) / 5 by t, along (1, 0, 0) by s, around a mean.
  std::vector<float> rows;
  for (const auto& [t, s] : {std::pair{5.0F, 1.0F}, {-5.0F, 1.0F}, {5.0F, -1.0F}, {-5.0F, -1.0F}})
    rows.insert(rows.end(), {s + 10, t * 3 / 5 - 7, t * 4 / 5 + 2});
  const std::vector<double> projected = runtime::principal_components(rows, 3, 3);
  const double expected[] = {5, 1, 0, -5, 1, 0, 5, -1, 0, -5, -1, 0};
  for (std::size_t i = 0; i < 12; ++i) CHECK(projected[i] == Approx(expected[i]).margin(1e-6));
  // Of two numbers there are two directions.
  const std::vector<double> narrow = runtime::principal_components(std::vector<float>{1, 0, -1, 0}, 2, 3);
  CHECK(narrow == std::vector<double>{1, 0, 0, -1, 0, 0});
}

TEST_CASE("A map of components is drawn patch by patch, from black to full colour over all images") {
  const ir::Shape image = {1, 4, 4};
  runtime::FeatureFacts facts{.layers = {"blocks.0"}, .width = 1, .patches = 4, .rows = 2, .columns = 2};
  const std::vector<float> rows = {0, 1, 2, 3, 4, 5, 6, 8};
  const std::vector<float> pixels(32, 1.0F);
  ir::Attributes transforms;
  transforms.set("mean", ir::Doubles{0});
  transforms.set("std", ir::Doubles{1});
  const runtime::DrawnImage sheet = runtime::draw_pca_maps({rows, facts, pixels, image, transforms});
  // Cells of 96 pixels, 4 around each: image, map, image, map.
  CHECK(sheet.channels == 3);
  CHECK(sheet.height == 104);
  CHECK(sheet.width == 404);
  const auto red = [&](std::int64_t y, std::int64_t x) {
    return static_cast<int>(sheet.pixels[static_cast<std::size_t>(y * sheet.width + x)]);
  };
  CHECK(red(10, 10) == 255);             // of the image
  CHECK(red(10, 110) == 0);              // the least of all
  CHECK(red(10, 110 + 60) == 32);        // 255 / 8, rounded
  CHECK(red(10 + 60, 310 + 60) == 255);  // the largest
  CHECK(message_of<UserError>([&] {
          facts.patches = 0;
          runtime::require_grid(facts, "--pca");
        }) == "--pca needs the patches' features: use --kind tokens or keys");
}

}  // namespace
}  // namespace rewire::test::cuts
