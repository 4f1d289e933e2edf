// Batches and transforms as pictures: each cell is what the network sees, un-normalised.
#include "runtime/data/vision/preview.h"

#include <algorithm>
#include <limits>

#include "ir/error.h"
#include "ir/philox.h"
#include "runtime/data/vision/transform.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

TEST_CASE("What normalize made of bytes becomes the bytes again") {
  for (const std::size_t values : {1U, 3U}) {
    ir::Attributes given;
    given.set("mean", values == 1 ? ir::Doubles{0.3} : ir::Doubles{0.485, 0.456, 0.406});
    given.set("std", values == 1 ? ir::Doubles{0.01} : ir::Doubles{0.229, 0.224, 7});
    const TransformChain chain(given, {{3, 16, 16}, {3, 16, 16}, false}, 0);
    std::vector<std::uint8_t> bytes;
    for (int i = 0; i < 3 * 256; ++i) bytes.push_back(static_cast<std::uint8_t>(i * 7));
    std::vector<float> floats(bytes.size(), std::numeric_limits<float>::quiet_NaN());
    chain.apply({bytes, 16, 16}, floats, 0, 0);
    CHECK(unnormalised(floats, 3, given) == bytes);
  }
  const float odd[] = {-3,     0.5F,
                       1e30F,  std::numeric_limits<float>::quiet_NaN(),
                       1.002F, -std::numeric_limits<float>::infinity()};
  CHECK(unnormalised(odd, 1, {}) == std::vector<std::uint8_t>{0, 128, 255, 0, 255, 0});
}

HostTensor& add_tensor(Batch& batch, const char* name, ir::DType dtype, ir::Shape shape) {
  return batch.tensors[name] = HostTensor({dtype, std::move(shape)});
}

/// A byte's float, as `normalize` makes it without mean and std.
float level(int byte) {
  return static_cast<float>(byte) / 255.0F;
}

/// 10 images of 1 x 2 x 3, of one level each: 10, 20 …; the last two are padding.
Batch levels_batch() {
  Batch batch;
  const auto images = add_tensor(batch, "image", ir::DType::f32, {10, 1, 2, 3}).as<float>();
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = level(10 * (static_cast<int>(i / 6) + 1));
  const auto labels = add_tensor(batch, "label", ir::DType::i64, {10}).as<std::int64_t>();
  const auto weights = add_tensor(batch, "weight", ir::DType::f32, {10}).as<float>();
  for (std::size_t i = 0; i < 10; ++i) {
    labels[i] = static_cast<std::int64_t>(i % 4);
    weights[i] = i < 8 ? 1.0F : 0.0F;
  }
  return batch;
}

/// The level at the middle of a cell of 64 x 96.
int cell_level(const DrawnImage& sheet, std::int64_t row, std::int64_t column) {
  const std::int64_t y = 4 + row * 68 + 32, x = 4 + column * 100 + 48;
  return sheet.pixels[static_cast<std::size_t>(y * sheet.width + x)];
}

TEST_CASE("A batch is drawn without its padding, tiny images enlarged by a whole number") {
  const Batch batch = levels_batch();
  const BatchPreview preview = preview_batch(batch, {}, 32);
  CHECK(preview.rows == 1);
  CHECK(preview.columns == 8);
  CHECK(preview.views == 0);
  CHECK(preview.sheet.channels == 1);
  REQUIRE(preview.sheet.height == 4 + 68);  // 32 times 2 x 3
  REQUIRE(preview.sheet.width == 4 + 8 * 100);
  REQUIRE(preview.told.size() == 8);
  for (std::int64_t i = 0; i < 8; ++i) {
    CHECK(cell_level(preview.sheet, 0, i) == 10 * (i + 1));
    const std::vector<ClassShare>& told = preview.told[static_cast<std::size_t>(i)];
    REQUIRE(told.size() == 1);
    CHECK(told[0].label == i % 4);
    CHECK(told[0].probability == 1);
  }
  const BatchPreview three = preview_batch(batch, {}, 3);
  CHECK(three.columns == 3);
  CHECK(three.sheet.width == 4 + 3 * 100);
}

TEST_CASE("An image of weight 0 before others is one that could not be read, not the beginning of padding") {
  Batch batch = levels_batch();
  batch.tensors.at("weight").as<float>()[0] = 0;
  CHECK(preview_batch(batch, {}, 32).columns == 8);
  std::ranges::fill(batch.tensors.at("weight").as<float>(), 0.0F);
  CHECK(preview_batch(batch, {}, 32).told.empty());
}

TEST_CASE("Targets are told by their two largest shares, of equal ones the first, and none of nothing") {
  Batch batch = levels_batch();
  const auto targets = add_tensor(batch, "target", ir::DType::f32, {10, 4}).as<float>();
  const float rows[3][4] = {{0.25F, 0, 0.5F, 0.25F}, {0, 0, 1, 0}, {0.1F, 0.2F, 0.3F, 0.4F}};
  for (std::size_t i = 0; i < 3; ++i)
    std::ranges::copy(rows[i], targets.begin() + static_cast<std::ptrdiff_t>(4 * i));
  const BatchPreview preview = preview_batch(batch, {}, 3);
  REQUIRE(preview.told.size() == 3);
  const auto told = [&](std::size_t i) {
    std::vector<std::pair<std::int64_t, float>> shares;
    for (const ClassShare& share : preview.told[i]) shares.emplace_back(share.label, share.probability);
    return shares;
  };
  using Shares = std::vector<std::pair<std::int64_t, float>>;
  CHECK(told(0) == Shares{{2, 0.5F}, {0, 0.25F}});
  CHECK(told(1) == Shares{{2, 1.0F}});
  CHECK(told(2) == Shares{{3, 0.4F}, {2, 0.3F}});
}

TEST_CASE("Further views of an image stand below it, in the order of their tensors' names") {
  Batch batch = levels_batch();
  for (std::size_t i = 0; i < 10; ++i) batch.tensors.at("weight").as<float>()[i] = 1;
  const auto small = add_tensor(batch, "small", ir::DType::f32, {2, 10, 1, 1, 1}).as<float>();
  for (std::size_t i = 0; i < 20; ++i) small[i] = level(100 + static_cast<int>(i));
  const auto again = add_tensor(batch, "again", ir::DType::f32, {1, 10, 1, 2, 3}).as<float>();
  for (std::size_t i = 0; i < 60; ++i) again[i] = level(200 + static_cast<int>(i / 6));
  add_tensor(batch, "others", ir::DType::f32,
             {2, 3, 1, 1, 1});  // of another number of images: no views of them
  const BatchPreview preview = preview_batch(batch, {}, 9);
  CHECK(preview.views == 3);
  CHECK(preview.rows == 2);
  REQUIRE(preview.sheet.height == 4 + 2 * 4 * 68);
  for (std::int64_t i = 0; i < 9; ++i) {
    const std::int64_t row = i / 8 * 4, column = i % 8;
    CHECK(cell_level(preview.sheet, row, column) == 10 * (i + 1));
    CHECK(cell_level(preview.sheet, row + 1, column) == 200 + i);
    CHECK(cell_level(preview.sheet, row + 2, column) == 100 + i);
    CHECK(cell_level(preview.sheet, row + 3, column) == 110 + i);
  }
  CHECK(cell_level(preview.sheet, 4, 1) == 128);
}

DrawnImage slope_image(std::int64_t height, std::int64_t width) {
  DrawnImage image{3, height, width, {}};
  for (std::int64_t i = 0; i < 3 * height * width; ++i)
    image.pixels.push_back(static_cast<std::uint8_t>(i * 5 % 251));
  return image;
}

/// The bytes of a cell of a sheet with cells as large as the image.
std::vector<std::uint8_t> cell_bytes(const DrawnImage& sheet, const DrawnImage& image, std::int64_t place) {
  std::vector<std::uint8_t> bytes;
  const std::int64_t top = 4 + place / 9 * (image.height + 4), left = 4 + place % 9 * (image.width + 4);
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t y = 0; y < image.height; ++y) {
      for (std::int64_t x = 0; x < image.width; ++x)
        bytes.push_back(
            sheet.pixels[static_cast<std::size_t>((c * sheet.height + top + y) * sheet.width + left + x)]);
    }
  }
  return bytes;
}

TEST_CASE("An image stands before the draws of its transforms, which are those of training") {
  const DrawnImage image = slope_image(61, 97);
  ir::Attributes given;
  given.set("horizontal_flip", true);
  given.set("mean", ir::Doubles{0.4});
  given.set("std", ir::Doubles{0.2});
  const DrawnImage sheet = try_transforms(image, given, {11, 97, 3});
  CHECK(sheet.height == 4 + 2 * 65);
  CHECK(sheet.width == 4 + 9 * 101);
  CHECK(cell_bytes(sheet, image, 0) == image.pixels);
  DrawnImage mirrored = image;
  for (std::size_t row = 0; row < 3 * 61; ++row)
    std::reverse(mirrored.pixels.begin() + static_cast<std::ptrdiff_t>(97 * row),
                 mirrored.pixels.begin() + static_cast<std::ptrdiff_t>(97 * (row + 1)));
  const TransformChain chain(given, {{3, 61, 97}, {3, 61, 97}, true}, 3);
  int flips = 0;
  for (std::int64_t i = 0; i < 11; ++i) {
    const std::vector<std::uint8_t> drawn = cell_bytes(sheet, image, i + 1);
    CHECK((drawn == image.pixels || drawn == mirrored.pixels));
    flips += drawn == mirrored.pixels ? 1 : 0;
    std::vector<float> floats(image.pixels.size());
    chain.apply({image.pixels, 61, 97}, floats, 0, i);
    CHECK(unnormalised(floats, 3, given) == drawn);
  }
  CHECK(flips > 0);
  CHECK(flips < 11);
}

TEST_CASE("A larger image is scaled into the size first, unless a transform gives the size") {
  const DrawnImage image = slope_image(150, 300);
  const DrawnImage plain = try_transforms(image, {}, {1, 100, 0});
  CHECK(plain.height == 4 + 54);
  CHECK(plain.width == 4 + 2 * 104);
  ir::Attributes resized;
  resized.set("resize", std::string("bilinear"));
  const DrawnImage square = try_transforms(image, resized, {1, 100, 0});
  CHECK(square.height == 4 + 104);
  CHECK(square.width == 4 + 2 * 104);
  const auto first_pixel = static_cast<std::size_t>(4 * square.width + 4);
  CHECK(square.pixels[first_pixel] == 128);  // the original lies in the middle of the cell, 50 rows high
}

TEST_CASE("Transforms of whole batches are not tried on one image") {
  ir::Attributes mixed;
  mixed.set("mixup", 0.8);
  CHECK(test::message_of<UserError>([&] { try_transforms(slope_image(3, 3), mixed, {}); }) ==
        "data try shows one image, but mixup and cutmix blend two: use rewire data preview");
}

}  // namespace
}  // namespace rewire::runtime
