// Classification: forward(image) -> (logits [batch, classes]). The loss is cross-entropy with label
// smoothing (Szegedy et al., CVPR 2016), against one label per sample or the probability of each class.
// PyTorch defines them in the same way.
#include "ir/opcodes.h"
#include "programs/objective.h"
#include "programs/sums.h"

namespace rewire::programs {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

namespace {

/// Returns how many classes rank above the label, f32 [batch]. These classes
/// have a greater logit, or an equal logit and a lower index (so that rank 0
/// is argmax), or their logit or the label's is NaN. A top-k hit has rank < k.
Value label_rank(Builder& builder, Value logits, Value labels) {
  const std::int64_t batch = builder.shape(logits).at(0), classes = builder.shape(logits).at(1);
  const DType dtype = builder.type(logits).dtype;
  Value index = builder.emit(Opcode::iota, {}, {{"axis", std::int64_t{1}}},
                             ir::TensorType{DType::i64, {batch, classes}});
  Value label = builder.broadcast(builder.reshape(labels, {batch, 1}), {batch, classes});
  Value one_hot = builder.compare("eq", index, label);
  Value zero = builder.constant(0, dtype);
  Value own = builder.sum(builder.select(one_hot, logits, zero), {1});
  // This uses "not <=" instead of ">", so that a NaN counts against the label.
  Value beats = builder.unary(Opcode::logical_not, builder.compare("le", logits, own));
  Value ties = builder.binary(Opcode::logical_and, builder.compare("eq", logits, own),
                              builder.compare("lt", index, label));
  Value ahead = builder.cast(builder.binary(Opcode::logical_or, beats, ties), DType::f32);
  return builder.reshape(builder.sum(ahead, {1}), {batch});
}

/// Returns the number of samples whose rank is below k,
/// as a scalar. `weight` [batch], if valid, weighs them.
Value count_hits(Builder& builder, Value rank, double k, Value weight = {}) {
  Value hits = builder.cast(builder.compare("lt", rank, builder.constant_like(rank, k)), DType::f32);
  return sum_all(builder, weight ? builder.mul(hits, weight) : hits);
}

class Supervised : public Objective {
 public:
  Supervised(double label_smoothing, bool takes_probabilities)
      : label_smoothing_(label_smoothing), takes_probabilities_(takes_probabilities) {}

  Inputs inputs(const ir::Module& module) const override {
    const ir::Function& forward = module.function("forward");
    const Value image = forward.argument("image"), logits = forward.result("logits");
    if (!image) user_error("the model has no argument 'image'; the objective supervised needs one");
    if (!logits && forward.result("projection")) {
      user_error(
          "the model gives 'projection' but not 'logits', which the objective supervised needs: set "
          "objective.name=dino");
    }
    if (!logits && forward.result("features")) {
      user_error(
          "the model has no result 'logits' because it has no head (model.classes=0); the objective "
          "supervised needs one: set model.classes to the number of classes");
    }
    if (!logits && forward.result("prediction")) {
      user_error(
          "the model predicts patches but has no result 'logits', which the objective supervised needs: set "
          "objective.name=mae");
    }
    if (!logits && forward.result("velocity")) {
      user_error(
          "the model gives velocities but has no result 'logits', which the objective supervised needs: set "
          "objective.name=diffusion");
    }
    if (!logits) {
      user_error(
          "the model has no result 'logits'; the objective supervised needs one of shape [batch, classes]");
    }
    if (forward.result("boxes")) {
      user_error(
          "the model gives 'boxes', which no objective trains; `rewire init` writes weights for it, and "
          "`rewire run` computes its logits");
    }
    const ir::TensorType& type = forward.type(image);
    if (type.rank() == 0 || forward.type(logits).rank() != 2) {
      user_error(
          "the objective supervised takes 'image' [batch, ...] and gives 'logits' [batch, classes]; "
          "the network has {} and {}",
          to_string(type), to_string(forward.type(logits)));
    }
    const std::int64_t batch = type.shape[0], classes = forward.type(logits).shape[1];
    if (takes_probabilities_) return {{"image", type}, {"target", {DType::f32, {batch, classes}}}};
    return {{"image", type}, {"label", {DType::i64, {batch}}, classes}};
  }

  Trained train(Builder& b, Network& network, const NamedValues& inputs) const override {
    const Value logits = logits_of(network, inputs);
    b.set_location("loss");
    const Value loss = mean_all(b, cross_entropy(b, logits, inputs, label_smoothing_));
    const auto batch = static_cast<double>(b.shape(logits).at(0));
    const Value rank = label_rank(b, logits, label_of(b, inputs));
    return {loss, {{{"top1", "correct1", {}, batch}, count_hits(b, rank, 1)}}};
  }

  std::vector<Measured> evaluate(Builder& b, Network& network, const NamedValues& inputs,
                                 Value weight) const override {
    const Value logits = logits_of(network, inputs);
    b.set_location("eval");
    const Value loss = b.cast(cross_entropy(b, logits, inputs, 0), DType::f32);
    const Value rank = label_rank(b, logits, label_of(b, inputs));
    const Value loss_sum = sum_all(b, b.mul(loss, weight));
    const bool has_top5 = tells_top5(b.shape(logits).at(1));
    const Value correct1 = count_hits(b, rank, 1, weight);
    const Value correct5 = has_top5 ? count_hits(b, rank, 5, weight) : Value{};
    const Value count = sum_all(b, weight);
    std::vector<Measured> measured = {{{"loss", "loss_sum", "count"}, loss_sum, count},
                                      {{"top1", "correct1", "count"}, correct1, count}};
    if (has_top5) measured.push_back({{"top5", "correct5", "count"}, correct5, count});
    return measured;
  }

 private:
  static Value logits_of(Network& network, const NamedValues& inputs) {
    return network.call("forward", {{"image", inputs.at("image")}}).at("logits");
  }
  /// Returns the label, i64 [batch], or the most probable class, the first one of a tie.
  Value label_of(Builder& b, const NamedValues& inputs) const {
    if (!takes_probabilities_) return inputs.at("label");
    const Value target = inputs.at("target");
    const Value index = b.emit(Opcode::argmax, {target}, {{"axis", std::int64_t{1}}});
    return b.cast(b.reshape(index, {b.shape(target).at(0)}), DType::i64);
  }
  /// Returns [batch]. With probabilities t: -sum over k of ((1 - s) t_k + s / K) log softmax(logits)_k.
  Value cross_entropy(Builder& b, Value logits, const NamedValues& inputs, double label_smoothing) const {
    if (!takes_probabilities_)
      return b.emit(Opcode::cross_entropy, {logits, inputs.at("label")},
                    {{"label_smoothing", label_smoothing}});
    const auto classes = static_cast<double>(b.shape(logits).at(1));
    const std::int64_t batch = b.shape(logits).at(0);
    if (b.type(logits).dtype != DType::f64) logits = b.cast(logits, DType::f32);
    Value target = b.cast(inputs.at("target"), b.type(logits).dtype);
    target = b.add(b.mul(target, 1 - label_smoothing), label_smoothing / classes);
    const Value surprise = surprisals(b, logits);
    // A class whose log-probability is minus infinity costs nothing if its target is 0.
    const Value zero = b.constant_like(target, 0);
    const Value costs = b.select(b.compare("eq", target, zero), zero, b.mul(target, surprise));
    return b.reshape(b.sum(costs, {1}), {batch});
  }

  double label_smoothing_;
  bool takes_probabilities_;
};

}  // namespace

extern const ObjectiveRow kSupervised{
    "supervised",
    "classification: cross-entropy of 'logits' against one label per image or a probability per class",
    {{"loss", "loss", Shown::number},
     {"top1", "top-1", Shown::percent, Better::higher},
     {"top5", "top-5", Shown::percent, Better::higher}},
    {ir::float_parameter(
         "label_smoothing", 0,
         "share of the target that is spread evenly over all classes; train.label_smoothing is the same key")
         .at_least(0)
         .below(1),
     ir::enum_parameter("targets", {"label", "probabilities"},
                        "form of the targets; label: one class per image; probabilities: one probability per "
                        "class, as MixUp and CutMix need")},
    [](const ir::Attributes& values) -> std::unique_ptr<Objective> {
      return std::make_unique<Supervised>(values.get_double("label_smoothing"),
                                          values.get_string("targets") == "probabilities");
    }};

}  // namespace rewire::programs
