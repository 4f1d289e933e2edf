// Numbers at their limits: refused before memory is asked for or an integer overflows.
#include <algorithm>
#include <limits>

#include "ir/error.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/data/vision/image_source.h"
#include "runtime/data/vision/transform.h"
#include "tests/runtime_data/same_size.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::string transform_message(const ir::Attributes& values) {
  return test::message_of<UserError>([&] { TransformChain(values, same_size({1, 4, 4}), 0); });
}

TEST_CASE("A padding or a normalisation beyond its limit is refused") {
  for (const std::int64_t padding : {kMost, std::int64_t{16385}}) {
    CHECK(transform_message({{"crop_padding", padding}}) ==
          "transforms.crop_padding=" + std::to_string(padding) +
              " is out of range: it takes an int 0 to 16384");
  }
  CHECK(
      transform_message({{"mean", ir::Doubles{1e30}}, {"std", ir::Doubles{1e-10}}}) ==
      "transforms.mean 1e+30 and transforms.std 1e-10 give -1e+40 for a pixel of 0/255: f32 cannot hold it");
}

TEST_CASE("The largest padding leaves a black image mostly") {
  const TransformChain chain({{"crop_padding", std::int64_t{16384}}}, same_size({1, 4, 4}), 1);
  const std::vector<std::uint8_t> pixels(16, 255);
  std::vector<float> image(16);
  for (std::int64_t sample = 0; sample < 100; ++sample) {
    apply(chain, pixels, {1, 4, 4}, image, 0, sample);
    CHECK(std::ranges::all_of(image, [](float value) { return value == 0 || value == 1; }));
    CHECK(std::ranges::count(image, 0.0F) > 0);
  }
}

TEST_CASE("Synthetic images that no machine holds are refused, however their sizes multiply") {
  constexpr std::int64_t kMostImages = 1'000'000'000;  // the most that data.count takes
  for (const ir::Shape& shape : {ir::Shape{kMost, 1, 1}, {1, kMost, kMost}, {1, 1, kMost}, {64, 280, 280}}) {
    ir::Selection selection{"synthetic"};
    selection.set("count", kMostImages);
    CHECK_THAT(test::message_of<UserError>([&] { make_image_source(selection, {Split::train, shape}); }),
               REWIRE_CATCH_CONTAINS("data.count is 1000000000: that many synthetic images"));
  }
  CHECK(test::message_of<UserError>([] {
          ir::Selection selection{"synthetic"};
          make_image_source(selection.set("count", kMost), {Split::train, {1, 4, 4}});
        }) == "data.count=9223372036854775807 is out of range: it takes an int 1 to 1000000000");
}

}  // namespace
}  // namespace rewire::runtime
