// Horizontal flip: one image in two is mirrored left to right.
#include <algorithm>
#include <cstring>

#include "runtime/data/vision/transform.h"

namespace rewire::runtime {
namespace {

class HorizontalFlip final : public TransformOf<std::uint8_t, std::uint8_t> {
 public:
  explicit HorizontalFlip(ir::Shape image) : shape_(std::move(image)) {}

  ir::Shape shape() const override { return shape_; }

  void move_boxes(std::span<float> boxes, std::int64_t /*height*/, std::int64_t width,
                  const SampleRandom& random) const override {
    if (!is_mirrored(random)) return;
    for (std::size_t i = 0; i + 4 <= boxes.size(); i += 4) {
      const float left = boxes[i];
      boxes[i] = static_cast<float>(width) - boxes[i + 2];
      boxes[i + 2] = static_cast<float>(width) - left;
    }
  }

  void apply(std::span<const std::uint8_t> image, std::span<std::uint8_t> out,
             const SampleRandom& random) const override {
    const std::int64_t width = shape_[2], rows = shape_[0] * shape_[1];
    if (!is_mirrored(random)) {
      std::ranges::copy(image, out.begin());
      return;
    }
    for (std::int64_t row = 0; row < rows; ++row)
      mirror(image.data() + row * width, out.data() + row * width, width);
  }

 private:
  /// Uses the third of the four numbers that a sample has in data.augment; random_crop takes two.
  static bool is_mirrored(const SampleRandom& random) {
    return random.below(random.sample * kSharedDraws + 2, 2) != 0;
  }

  /// Mirrors eight pixels at a time: for baseline processors, compilers turn a loop
  /// over bytes into slower code.
  static void mirror(const std::uint8_t* line, std::uint8_t* out, std::int64_t width) {
    const auto mirror_eight = [&](std::int64_t x) {
      std::uint64_t eight = 0;
      std::memcpy(&eight, line + x, 8);
      eight = __builtin_bswap64(eight);
      std::memcpy(out + width - 8 - x, &eight, 8);
    };
    for (std::int64_t x = 0; x + 8 <= width; x += 8) mirror_eight(x);
    if (width >= 8) {
      mirror_eight(width - 8);  // the rest, and again some of those before it
    } else {
      std::reverse_copy(line, line + width, out);
    }
  }

  ir::Shape shape_;
};

}  // namespace

extern const TransformRow kHorizontalFlip{
    "horizontal_flip",
    "mirrors half of the images left to right",
    {ir::bool_parameter("horizontal_flip", false, "mirror each training image with probability 0.5")},
    true,
    [](const ir::Attributes& values, const TransformContext& context) -> std::unique_ptr<Transform> {
      if (!values.get_bool("horizontal_flip")) return nullptr;
      return std::make_unique<HorizontalFlip>(context.image);
    },
    "data.augment",
    nullptr,
    {FieldKind::image, FieldKind::boxes}};

}  // namespace rewire::runtime
