// Numbers at their limits: refused before memory is asked for or an integer overflows.
#include <limits>

#include "ir/error.h"
#include "runtime/data/dataset.h"
#include "runtime/data/transform.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::string transform_message(const TransformOptions& options) {
  return test::message_of<UserError>([&] { Transform(options, 1, 4, 4); });
}

TEST_CASE("A padding or a normalisation beyond its limit is refused") {
  for (const std::int64_t padding : {kMost, kMostCropPadding + 1}) {
    TransformOptions options;
    options.crop_padding = padding;
    CHECK(transform_message(options) ==
          "transforms.crop_padding is " + std::to_string(padding) + "; it must be at most 16384");
  }
  TransformOptions options;
  options.mean = {1e30};
  options.deviation = {1e-10};
  CHECK(transform_message(options) ==
        "transforms.mean 1e+30 and transforms.std 1e-10 make -1e+40 of a pixel of 0/255: f32 has no such "
        "number");
}

TEST_CASE("The largest padding gives offsets within it, and a black image mostly") {
  TransformOptions options;
  options.crop_padding = kMostCropPadding;
  const Transform transform(options, 1, 4, 4);
  for (std::int64_t sample = 0; sample < 100; ++sample) {
    const Augmentation drawn = transform.draw(1, 0, sample);
    CHECK(std::abs(drawn.dy) <= kMostCropPadding);
    CHECK(std::abs(drawn.dx) <= kMostCropPadding);
  }
}

TEST_CASE("Synthetic images that no machine holds are refused, however their sizes multiply") {
  for (const auto& [count, size] : {std::pair{kMost, std::int64_t{1}},
                                    {kMost, std::int64_t{28}},
                                    {std::int64_t{1}, kMost},
                                    {kMost, kMost}}) {
    SyntheticOptions options;
    options.count = count;
    options.height = options.width = size;
    const std::string message =
        test::message_of<UserError>([&] { make_synthetic_dataset(options, Split::train); });
    CHECK_THAT(message, REWIRE_CATCH_CONTAINS("data.count is " + std::to_string(count) +
                                              ": so many synthetic images"));
  }
}

}  // namespace
}  // namespace rewire::runtime
