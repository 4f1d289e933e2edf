// Masked autoencoding (He et al., CVPR 2022): forward(image, noise) -> (prediction [batch, patches, p p C],
// mask [batch, patches]). The mask is 1 for a patch that the network did not see. t are the pixels of each
// patch, in the order (row, column, channel):
//   loss = mean over the masked patches of mean((prediction - t)^2)
// With norm_pix_loss, t is (t - mean) / sqrt(var + 1e-6) of its own patch, with the unbiased variance.
#include <cmath>

#include "ir/opcodes.h"
#include "programs/objective.h"
#include "programs/sums.h"

namespace rewire::programs {

using ir::Builder;
using ir::Opcode;
using ir::Value;

namespace {

constexpr double kPixelEpsilon = 1e-6;

class MaskedPixels : public Objective {
 public:
  explicit MaskedPixels(bool normalises) : normalises_(normalises) {}

  Inputs inputs(const ir::Module& module) const override {
    const ir::Function& forward = module.function("forward");
    const Value image = forward.argument("image"), noise = forward.argument("noise");
    const Value prediction = forward.result("prediction"), mask = forward.result("mask");
    if (!image || !noise || !prediction || !mask) {
      user_error(
          "the objective mae takes 'image' and 'noise' and gives 'prediction' and 'mask', as the networks of "
          "the family "
          "mae do; the network lacks '{}'",
          !image        ? "image"
          : !noise      ? "noise"
          : !prediction ? "prediction"
                        : "mask");
    }
    const ir::TensorType &pixels = forward.type(image), &draws = forward.type(noise);
    if (pixels.rank() != 4 || draws.rank() != 2 || patch_side(pixels, forward.type(prediction)) == 0 ||
        forward.type(mask).shape != draws.shape) {
      user_error(
          "the objective mae takes 'image' [batch,channels,height,width] and 'noise' [batch,patches], and "
          "gives "
          "'prediction' [batch,patches,pixels of a patch] and 'mask' [batch,patches]; the network has {}, "
          "{}, {} and {}",
          to_string(pixels), to_string(draws), to_string(forward.type(prediction)),
          to_string(forward.type(mask)));
    }
    return {{"image", pixels}, {.name = "noise", .type = draws, .filler = Filler::uniform}};
  }

  Trained train(Builder& b, Network& network, const NamedValues& inputs) const override {
    return {mean_all(b, losses(b, network, inputs)), {}};
  }

  std::vector<Measured> evaluate(Builder& b, Network& network, const NamedValues& inputs,
                                 Value weight) const override {
    const Value sum = sum_all(b, b.mul(losses(b, network, inputs), weight));
    return {{{"loss", "loss_sum", "count"}, sum, sum_all(b, weight)}};
  }

  /// Returns four pictures: the original; the patches that were seen, with 0, the data's mean, elsewhere;
  /// the prediction, in raw pixels; and the prediction with the seen patches in their places.
  std::vector<Picture> pictures(Builder& b, Network& network, const NamedValues& inputs) const override {
    const Value image = inputs.at("image");
    const NamedValues results = network.call("forward", {{"image", image}, {"noise", inputs.at("noise")}});
    b.set_location("pictures");
    const ir::Shape shape = b.shape(image);
    Value prediction = b.cast(results.at("prediction"), b.type(image).dtype);
    const std::int64_t side = patch_side(b.type(image), b.type(prediction));
    const Value patches = patches_of(b, image, side);
    if (normalises_) {
      const Moments own = moments(b, patches);
      prediction = b.add(b.mul(prediction, own.deviation), own.mean);
    }
    const Value hidden = b.compare(
        "gt",
        b.broadcast(b.reshape(results.at("mask"), {shape[0], b.shape(patches).at(1), 1}), b.shape(patches)),
        b.constant_like(results.at("mask"), 0));
    const auto picture = [&](Value of_patches) { return image_of(b, of_patches, side, shape); };
    return {{"original", image},
            {"masked", picture(b.select(hidden, b.constant_like(patches, 0), patches))},
            {"predicted", picture(prediction)},
            {"reconstructed", picture(b.select(hidden, prediction, patches))}};
  }

 private:
  /// Returns the side of a square patch in pixels, or 0 if the prediction is not of such patches.
  static std::int64_t patch_side(const ir::TensorType& image, const ir::TensorType& prediction) {
    if (prediction.rank() != 3 || prediction.shape[0] != image.shape[0] ||
        prediction.shape[2] % image.shape[1] != 0)
      return 0;
    const std::int64_t area = prediction.shape[2] / image.shape[1];
    const std::int64_t side = std::llround(std::sqrt(static_cast<double>(area)));
    const bool tiles = side > 0 && side * side == area && image.shape[2] % side == 0 &&
                       image.shape[3] % side == 0 &&
                       prediction.shape[1] == image.shape[2] / side * (image.shape[3] / side);
    return tiles ? side : 0;
  }

  /// Returns the image's patches, [batch, patches, p p C].
  static Value patches_of(Builder& b, Value image, std::int64_t side) {
    const ir::Shape shape = b.shape(image);
    const std::int64_t rows = shape[2] / side, columns = shape[3] / side;
    const Value t = b.reshape(image, {shape[0], shape[1], rows, side, columns, side});
    return b.reshape(b.transpose(t, {0, 2, 4, 3, 5, 1}), {shape[0], rows * columns, side * side * shape[1]});
  }

  /// The inverse of patches_of, to the shape of an image.
  static Value image_of(Builder& b, Value patches, std::int64_t side, const ir::Shape& shape) {
    const Value t = b.reshape(patches, {shape[0], shape[2] / side, shape[3] / side, side, side, shape[1]});
    return b.reshape(b.transpose(t, {0, 5, 1, 3, 2, 4}), shape);
  }

  /// Mean and deviation of each patch, [batch, patches, 1], and the pixels minus the mean.
  struct Moments {
    Value mean, centred, deviation;
  };
  static Moments moments(Builder& b, Value patches) {
    const auto pixels = static_cast<double>(b.shape(patches).at(2));
    const Value mean = b.mean(patches, {2}), centred = b.sub(patches, mean);
    const Value variance = b.div(b.sum(b.mul(centred, centred), {2}), pixels > 1 ? pixels - 1 : 1);
    return {mean, centred, b.unary(Opcode::sqrt, b.add(variance, kPixelEpsilon))};
  }

  Value target(Builder& b, Value image, std::int64_t side) const {
    const Value t = patches_of(b, image, side);
    if (!normalises_) return t;
    const Moments own = moments(b, t);
    return b.div(own.centred, own.deviation);
  }

  /// Returns the loss of each sample, [batch]. All samples have the same number of masked patches, so the
  /// mean of the samples' means is the mean over all masked patches.
  Value losses(Builder& b, Network& network, const NamedValues& inputs) const {
    const Value image = inputs.at("image");
    const NamedValues results = network.call("forward", {{"image", image}, {"noise", inputs.at("noise")}});
    b.set_location("loss");
    const Value prediction = b.cast(results.at("prediction"), ir::DType::f32), mask = results.at("mask");
    const std::int64_t side = patch_side(b.type(image), b.type(prediction));
    const Value error = b.sub(prediction, target(b, image, side));
    const std::int64_t batch = b.shape(mask).at(0), patches = b.shape(mask).at(1);
    const Value each = b.reshape(b.mean(b.mul(error, error), {2}), {batch, patches});
    const Value masked = b.sum(b.mul(each, mask), {1}), count = b.sum(mask, {1});
    return b.reshape(b.div(masked, count), {batch});
  }

  bool normalises_;
};

}  // namespace

extern const ObjectiveRow kMaskedPixels{
    "mae",
    "masked autoencoding: the pixels of the masked patches",
    {{"loss", "loss", Shown::number}},
    {ir::bool_parameter("norm_pix_loss", true,
                        "normalise the target pixels of each patch by its mean and standard deviation")},
    [](const ir::Attributes& values) -> std::unique_ptr<Objective> {
      return std::make_unique<MaskedPixels>(values.get_bool("norm_pix_loss"));
    },
    /*has_pictures=*/true};

}  // namespace rewire::programs
