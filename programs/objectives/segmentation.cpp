// A class for each pixel: forward(image) -> (logits [batch, classes, height, width]). The loss is the
// cross-entropy against label [batch, height, width], as a mean over the pixels whose label is one of the
// classes. Other labels do not count; 255 is the usual one.
#include "ir/opcodes.h"
#include "programs/objective.h"
#include "programs/sums.h"

namespace rewire::programs {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

namespace {

class Segmentation : public Objective {
 public:
  Inputs inputs(const ir::Module& module) const override {
    const ir::Function& forward = module.function("forward");
    const Value image = forward.argument("image"), logits = forward.result("logits");
    if (!image || !logits || forward.type(image).rank() == 0 || forward.type(logits).rank() != 4) {
      user_error(
          "the objective segmentation takes 'image' [batch, ...] and gives 'logits' [batch, classes, height, "
          "width]; "
          "the network has {} and {}",
          image ? to_string(forward.type(image)) : "no 'image'",
          logits ? to_string(forward.type(logits)) : "no 'logits'");
    }
    const ir::Shape& shape = forward.type(logits).shape;
    return {{"image", forward.type(image)}, {"label", {DType::i64, {shape[0], shape[2], shape[3]}}}};
  }

  Trained train(Builder& b, Network& network, const NamedValues& inputs) const override {
    const CountedSums p = pixels(b, network, inputs, "loss", {});
    // A batch in which no pixel counts has a loss of 0.
    const Value count = b.binary(Opcode::maximum, p.count, b.constant_like(p.count, 1));
    const Value loss = b.div(p.loss, count);
    return {loss, {{{"pixel_accuracy", "correct_pixels", "pixels"}, p.correct, p.count}}};
  }

  std::vector<Measured> evaluate(Builder& b, Network& network, const NamedValues& inputs,
                                 Value weight) const override {
    const CountedSums p = pixels(b, network, inputs, "eval", weight);
    return {{{"loss", "loss_sum", "pixels"}, p.loss, p.count},
            {{"pixel_accuracy", "correct_pixels", "pixels"}, p.correct, p.count}};
  }

 private:
  static CountedSums pixels(Builder& b, Network& network, const NamedValues& inputs, const char* location,
                            Value weight) {
    const Value logits = network.call("forward", {{"image", inputs.at("image")}}).at("logits");
    b.set_location(location);
    const ir::Shape shape = b.shape(logits);
    const std::int64_t pixels = shape[2] * shape[3], count = shape[0] * pixels;
    const Value rows = b.reshape(b.transpose(logits, {0, 2, 3, 1}), {count, shape[1]});
    if (weight)
      weight = b.reshape(b.broadcast(b.reshape(weight, {shape[0], 1}), {shape[0], pixels}), {count});
    return counted_cross_entropy(b, rows, b.reshape(inputs.at("label"), {count}), weight);
  }
};

}  // namespace

extern const ObjectiveRow kSegmentation{
    "segmentation",
    "segmentation: cross-entropy of 'logits' [batch, classes, height, width] over pixels that have a class",
    {{"loss", "loss", Shown::number}, {"pixel_accuracy", "pixel accuracy", Shown::percent, Better::higher}},
    {},
    [](const ir::Attributes&) -> std::unique_ptr<Objective> { return std::make_unique<Segmentation>(); }};

}  // namespace rewire::programs
