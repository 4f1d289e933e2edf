// Diffusion along straight lines from noise to images, as in SiT (Ma et al., ECCV 2024; flow matching,
// Lipman et al., ICLR 2023): forward(image, time [batch], label [batch]) -> velocity, of the image's shape.
// Each image x has its own noise e from the standard normal distribution and its own t, uniform in [0, 1):
//   x_t = t x + (1 - t) e,   loss = mean((velocity(x_t, t, label) - (x - e))^2)
// Samples follow d x_t / d t = velocity from t = 0 to 1. In training, a
// label is dropped with probability label_drop. The network then sees the
// null class (Ho and Salimans, Classifier-Free Diffusion Guidance, 2022).
#include <array>
#include <variant>

#include "programs/objective.h"
#include "programs/sums.h"

namespace rewire::programs {

using ir::Builder;
using ir::DType;
using ir::Value;

namespace {

template <class T>
T attribute(const ir::Module& module, std::string_view name, T otherwise) {
  const ir::Attribute* value = module.attributes.find(name);
  const T* held = value == nullptr ? nullptr : std::get_if<T>(value);
  return held == nullptr ? otherwise : *held;
}

/// Returns the number of classes; 0 means any.
std::int64_t classes_of(const ir::Module& module) {
  return attribute(module, "classes", std::int64_t{0});
}

/// Returns the number of the null class, or 0 if the network has none.
std::int64_t null_class(const ir::Module& module) {
  return attribute(module, "null_class", false) ? classes_of(module) : 0;
}

class Diffusion : public Objective {
 public:
  explicit Diffusion(double label_drop) : label_drop_(label_drop) {}

  Inputs inputs(const ir::Module& module) const override {
    const ir::Function& forward = module.function("forward");
    const std::array<std::string_view, 3> taken = {"image", "time", "label"};
    for (const std::string_view name : taken) {
      if (!forward.argument(name)) refuse(name);
    }
    if (!forward.result("velocity")) refuse("velocity");
    const ir::TensorType& image = forward.type(forward.argument("image"));
    check_types(forward, image);
    if (label_drop_ > 0 && null_class(module) == 0) {
      user_error(
          "objective.label_drop={} needs a 'no class' label: set model.null_class=true, or "
          "objective.label_drop=0",
          label_drop_);
    }
    const ir::TensorType one{DType::f32, {image.shape[0]}};
    Inputs inputs = {{"image", image},
                     {"label", {DType::i64, one.shape}, classes_of(module)},
                     {.name = "noise", .type = image, .filler = Filler::normal},
                     {.name = "time", .type = one, .filler = Filler::uniform}};
    if (label_drop_ > 0) inputs.push_back({.name = "drop", .type = one, .filler = Filler::uniform});
    return inputs;
  }

  Trained train(Builder& b, Network& network, const NamedValues& inputs) const override {
    Value label = inputs.at("label");
    if (label_drop_ > 0) {
      b.set_location("label_drop");
      const Value drop = inputs.at("drop");
      const Value is_dropped = b.compare("lt", drop, b.constant_like(drop, label_drop_));
      label = b.select(is_dropped, none_of(b, label), label);
    }
    return {mean_all(b, losses(b, network, inputs, label)), {}};
  }

  std::vector<Measured> evaluate(Builder& b, Network& network, const NamedValues& inputs,
                                 Value weight) const override {
    const Value each = losses(b, network, inputs, inputs.at("label"));
    return {{{"loss", "loss_sum", "count"}, sum_all(b, b.mul(each, weight)), sum_all(b, weight)}};
  }

  Value velocity(Builder& b, Network& network, const SampleState& at) const override {
    b.set_location("velocity");
    const std::int64_t batch = b.shape(at.image).at(0);
    if (!at.guidance) {
      const Value time = b.broadcast(at.time, {batch});
      return call(b, network, at.image, time, at.label);
    }
    if (null_class(b.module()) == 0) {
      user_error(
          "guidance needs a 'no class' label, which the network lacks: train it with model.null_class=true");
    }
    const Value images[] = {at.image, at.image}, labels[] = {at.label, none_of(b, at.label)};
    const Value both =
        call(b, network, b.concat(images, 0), b.broadcast(at.time, {2 * batch}), b.concat(labels, 0));
    const Value of_label = b.slice(both, 0, 0, batch), of_none = b.slice(both, 0, batch, 2 * batch);
    return b.add(of_none, b.mul(b.sub(of_label, of_none), at.guidance));
  }

 private:
  [[noreturn]] static void refuse(std::string_view lacking) {
    user_error(
        "the objective diffusion takes 'image', 'time' and 'label' and gives 'velocity', as the networks of "
        "the family sit do; the network lacks '{}'",
        lacking);
  }

  static void check_types(const ir::Function& forward, const ir::TensorType& image) {
    const ir::TensorType &time = forward.type(forward.argument("time")),
                         &label = forward.type(forward.argument("label")),
                         &velocity = forward.type(forward.result("velocity"));
    if (image.rank() == 4 && velocity.shape == image.shape && time.dtype == image.dtype &&
        label.dtype == DType::i64 && time.shape == ir::Shape{image.shape[0]} && label.shape == time.shape)
      return;
    user_error(
        "the objective diffusion takes 'image' f32[batch,channels,height,width], 'time' f32[batch] and "
        "'label' i64[batch], and gives 'velocity' of the image's shape; the network has {}, {}, {} and {}",
        to_string(image), to_string(time), to_string(label), to_string(velocity));
  }

  static Value none_of(Builder& b, Value label) {
    return b.constant(static_cast<double>(null_class(b.module())), DType::i64, b.shape(label));
  }

  static Value call(Builder& b, Network& network, Value image, Value time, Value label) {
    const NamedValues results = network.call("forward", {{"image", image}, {"time", time}, {"label", label}});
    b.set_location("velocity");
    return b.cast(results.at("velocity"), b.type(image).dtype);
  }

  /// Returns the loss of each sample, [batch].
  static Value losses(Builder& b, Network& network, const NamedValues& inputs, Value label) {
    b.set_location("path");
    const Value image = inputs.at("image"), noise = inputs.at("noise"), time = inputs.at("time");
    const std::int64_t batch = b.shape(image).at(0);
    const Value t = b.reshape(time, {batch, 1, 1, 1}), line = b.sub(image, noise);
    const Value velocity = call(b, network, b.add(noise, b.mul(line, t)), time, label);
    b.set_location("loss");
    const Value error = b.sub(velocity, line);
    return b.reshape(b.mean(b.mul(error, error), {1, 2, 3}), {batch});
  }

  double label_drop_;
};

}  // namespace

extern const ObjectiveRow kDiffusion{
    "diffusion",
    "velocities along straight lines from noise to images, conditioned on the class",
    {{"loss", "loss", Shown::number}},
    {ir::float_parameter("label_drop", 0.1,
                         "probability that a training image's label is hidden from the network")
         .at_least(0)
         .at_most(1)},
    [](const ir::Attributes& values) -> std::unique_ptr<Objective> {
      return std::make_unique<Diffusion>(values.get_double("label_drop"));
    },
    /*has_pictures=*/true,
    /*samples=*/true};

}  // namespace rewire::programs
