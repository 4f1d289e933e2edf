// Random crop, as torchvision's RandomCrop: the image is padded on each side, and its own size is cut out at
// an offset that is uniform in [-padding, padding]^2.
#include <algorithm>

#include "ir/error.h"
#include "runtime/data/vision/transform.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kMostPadding = 16384;  // pixels a side; no image of ours is larger

class RandomCrop final : public TransformOf<std::uint8_t, std::uint8_t> {
 public:
  RandomCrop(ir::Shape image, std::int64_t padding, bool reflect)
      : shape_(std::move(image)),
        channels_(shape_[0]),
        height_(shape_[1]),
        width_(shape_[2]),
        padding_(padding),
        reflect_(reflect) {
    if (reflect && height_ > 0 && (padding >= height_ || padding >= width_)) {
      user_error("transforms.crop_padding {} cannot reflect images of {} x {}: it must be below both",
                 padding, height_, width_);
    }
  }

  ir::Shape shape() const override { return shape_; }

  void move_boxes(std::span<float> boxes, std::int64_t /*height*/, std::int64_t /*width*/,
                  const SampleRandom& random) const override {
    const auto [dy, dx] = offset(random);
    for (std::size_t i = 0; i < boxes.size(); ++i) boxes[i] -= static_cast<float>(i % 2 == 0 ? dx : dy);
  }

  void apply(std::span<const std::uint8_t> image, std::span<std::uint8_t> out,
             const SampleRandom& random) const override {
    const auto [dy, dx] = offset(random);
    for (std::int64_t plane = 0; plane < channels_ * height_ * width_; plane += height_ * width_)
      cut_out(image.data() + plane, out.data() + plane, dy, dx);
  }

 private:
  struct Offset {
    std::int64_t dy, dx;
  };
  Offset offset(const SampleRandom& random) const {
    const std::uint64_t first = random.sample * kSharedDraws;
    return {random.below(first, 2 * padding_ + 1) - padding_,
            random.below(first + 1, 2 * padding_ + 1) - padding_};
  }

  /// Returns the place in [0, extent) whose pixel is mirrored to `place` of the padded image. The
  /// edge itself is not repeated.
  static std::int64_t mirrored(std::int64_t place, std::int64_t extent) {
    if (place < 0) return -place;
    return place < extent ? place : 2 * (extent - 1) - place;
  }

  /// Cuts out one channel.
  void cut_out(const std::uint8_t* image, std::uint8_t* out, std::int64_t dy, std::int64_t dx) const {
    const std::int64_t height = height_, width = width_;  // locals: a byte store could change members
    const bool reflect = reflect_;
    // Rows [top, bottom) and columns [left, right) are the image's own; all else is padding.
    const auto top = std::clamp<std::int64_t>(-dy, 0, height), bottom = std::clamp(height - dy, top, height);
    const auto left = std::clamp<std::int64_t>(-dx, 0, width), right = std::clamp(width - dx, left, width);
    // One copy for all rows. What it puts into the columns of the padding is overwritten below.
    if (top < bottom && left < right) {
      std::copy_n(image + (top + dy) * width + left + dx, (bottom - top - 1) * width + right - left,
                  out + top * width + left);
    }
    const auto pad = [=](std::int64_t y0, std::int64_t y1, std::int64_t x0, std::int64_t x1) {
      for (std::int64_t x = x0; x < x1; ++x) {
        const std::uint8_t* column = image + (reflect ? mirrored(x + dx, width) : 0);
        for (std::int64_t y = y0; y < y1; ++y)
          out[y * width + x] = reflect ? column[mirrored(y + dy, height) * width] : std::uint8_t{0};
      }
    };
    pad(0, top, 0, width);
    pad(top, bottom, 0, left);
    pad(top, bottom, right, width);
    pad(bottom, height, 0, width);
  }

  ir::Shape shape_;
  std::int64_t channels_, height_, width_, padding_;
  bool reflect_;
};

}  // namespace

extern const TransformRow kRandomCrop{
    "random_crop",
    "pads an image and crops its original size at a random place",
    {ir::int_parameter("crop_padding", 0, "random crop: pixels of padding on each side; 0: no random crop")
         .at_least(0)
         .at_most(kMostPadding),
     ir::enum_parameter("crop_fill", {"zero", "reflect"},
                        "content of the padding; zero: black; reflect: the mirrored image")},
    true,
    [](const ir::Attributes& values, const TransformContext& context) -> std::unique_ptr<Transform> {
      const std::int64_t padding = values.get_int("crop_padding");
      if (padding == 0) return nullptr;
      return std::make_unique<RandomCrop>(context.image, padding,
                                          values.get_string("crop_fill") == "reflect");
    },
    "data.augment",
    nullptr,
    {FieldKind::image, FieldKind::boxes}};

}  // namespace rewire::runtime
