// Brings images of any size to the network's. Training is as in torchvision's RandomResizedCrop: a box of a
// random share of the area and a random aspect ratio is scaled to the network's size. Evaluation, and
// training without a share, are as in its Resize and CenterCrop: the image is scaled until its shorter side
// is the network's over crop_pct, and the middle is cut out of it.
#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "runtime/data/vision/resample.h"
#include "runtime/data/vision/transform.h"

namespace rewire::runtime {
namespace {

constexpr int kTries = 10;
constexpr std::uint64_t kDraws = 4 * kTries;  // of a sample: share, ratio, top and left of each try

/// Returns a box with a random share of the image's area and a random aspect ratio (width over height). If
/// no try fits, returns the largest box in the middle whose ratio is in the range.
Box random_box(std::int64_t height, std::int64_t width, const ir::Doubles& scale, const ir::Doubles& ratio,
               const SampleRandom& random) {
  const auto rows = static_cast<double>(height), columns = static_cast<double>(width);
  const auto between = [&](std::uint64_t draw, double low, double high) {
    return low + (high - low) * random.stream.uniform(random.sample * kDraws + draw);
  };
  for (std::uint64_t first = 0; first < kDraws; first += 4) {
    const double area = rows * columns * between(first, scale[0], scale[1]);
    const double aspect = std::exp(between(first + 1, std::log(ratio[0]), std::log(ratio[1])));
    const auto w = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area * aspect)));
    const auto h = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area / aspect)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const std::uint64_t at = random.sample * kDraws + first;
    return {random.below(at + 2, height - h + 1), random.below(at + 3, width - w + 1), h, w};
  }
  Box box{0, 0, height, width};
  constexpr std::int64_t one = 1;
  if (columns / rows < ratio[0])
    box.height = std::clamp(static_cast<std::int64_t>(std::nearbyint(columns / ratio[0])), one, height);
  if (columns / rows > ratio[1])
    box.width = std::clamp(static_cast<std::int64_t>(std::nearbyint(rows * ratio[1])), one, width);
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

/// Returns the middle of the image, scaled until it covers the network's size over `share`.
Frame middle(std::int64_t height, std::int64_t width, const ir::Shape& network, double share) {
  const auto part = [&](std::int64_t extent) {
    return static_cast<std::int64_t>(std::floor(static_cast<double>(extent) / share));
  };
  Frame frame{{0, 0, height, width}, part(network[1]), part(network[2]), {0, 0, network[1], network[2]}};
  if (width * frame.height >= height * frame.width) {
    frame.width = frame.height * width / height;
  } else {
    frame.height = frame.width * height / width;
  }
  const auto half = [](std::int64_t rest) {
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(rest) / 2));
  };
  frame.window.top = half(frame.height - network[1]);
  frame.window.left = half(frame.width - network[2]);
  return frame;
}

class ResizedCrop final : public Transform {
 public:
  ResizedCrop(const ir::Attributes& values, const TransformContext& context)
      : shape_{context.image[0], context.network[1], context.network[2]},
        filter_(values.get_string("resize") == "bicubic" ? Filter::bicubic : Filter::bilinear),
        scale_(values.get<ir::Doubles>("scale")),
        ratio_(values.get<ir::Doubles>("ratio")),
        middle_share_(values.get_double("crop_pct")),
        is_random_(context.training && !scale_.empty()) {
    const auto check = [](const ir::Doubles& range, std::string_view key) {
      if (range.size() != 2 || range[0] > range[1])
        user_error("transforms.{} takes two numbers, the smaller one first", key);
    };
    if (!scale_.empty()) check(scale_, "scale");
    check(ratio_, "ratio");
  }

  ir::Shape shape() const override { return shape_; }
  ir::DType reads() const override { return ir::DType::u8; }
  ir::DType writes() const override { return ir::DType::u8; }
  bool takes_any_size() const override { return true; }

  Box looks_at(std::int64_t height, std::int64_t width, const SampleRandom& random) const override {
    return looked_at(frame(height, width, random), filter_);
  }

  void move_boxes(std::span<float> boxes, std::int64_t height, std::int64_t width,
                  const SampleRandom& random) const override {
    const Frame to = frame(height, width, random);
    const double across = static_cast<double>(to.width) / static_cast<double>(to.source.width),
                 down = static_cast<double>(to.height) / static_cast<double>(to.source.height);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const double from = boxes[i];
      boxes[i] = static_cast<float>(
          i % 2 == 0
              ? (from - static_cast<double>(to.source.left)) * across - static_cast<double>(to.window.left)
              : (from - static_cast<double>(to.source.top)) * down - static_cast<double>(to.window.top));
    }
  }

  void run(const ImageBytes& image, std::span<std::byte> out, const SampleRandom& random) const override {
    resample({reinterpret_cast<const std::uint8_t*>(image.bytes.data()), image.bytes.size()}, image.height,
             image.width, frame(image.height, image.width, random), filter_,
             {reinterpret_cast<std::uint8_t*>(out.data()), out.size()});
  }

 private:
  Frame frame(std::int64_t height, std::int64_t width, const SampleRandom& random) const {
    if (!is_random_) return middle(height, width, shape_, middle_share_);
    const Box whole{0, 0, shape_[1], shape_[2]};
    return {random_box(height, width, scale_, ratio_, random), shape_[1], shape_[2], whole};
  }

  ir::Shape shape_;
  Filter filter_;
  ir::Doubles scale_, ratio_;
  double middle_share_;
  bool is_random_;
};

}  // namespace

extern const TransformRow kResizedCrop{
    "resized_crop",
    "resizes images of any size to the network's: a random box in training, the centre in evaluation",
    {ir::enum_parameter("resize", {"none", "bicubic", "bilinear"},
                        "filter that resizes images of any size; bicubic, bilinear; none: images must have "
                        "the network's size"),
     ir::list_parameter(
         "scale", {},
         "random resized crop: smallest and largest share of the area; empty: a centre crop in training too")
         .above(0)
         .at_most(1),
     ir::list_parameter("ratio", {0.75, 4.0 / 3},
                        "random resized crop: smallest and largest ratio of width to height")
         .at_least(0.01)
         .at_most(100),
     ir::float_parameter("crop_pct", 0.875,
                         "evaluation: side of the centre crop divided by that of the resized image")
         .at_least(0.01)
         .at_most(1)},
    false,
    [](const ir::Attributes& values, const TransformContext& context) -> std::unique_ptr<Transform> {
      if (values.get_string("resize") == "none") {
        if (!values.get<ir::Doubles>("scale").empty())
          user_error("transforms.scale needs random resized crops: set transforms.resize to a filter");
        return nullptr;
      }
      return std::make_unique<ResizedCrop>(values, context);
    },
    {},
    nullptr,
    {FieldKind::image, FieldKind::boxes}};

}  // namespace rewire::runtime
