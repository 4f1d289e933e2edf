// Language modelling: forward(tokens [batch, T]) -> (logits [batch, T, words]). The loss is the cross-entropy
// against targets [batch, T], as a mean over the targets that are words; others (-1, -100) do not count. A
// network that has an argument `documents` gets the number of each token's document.
#include <numbers>

#include "ir/opcodes.h"
#include "programs/objective.h"
#include "programs/sums.h"

namespace rewire::programs {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

namespace {

class NextToken : public Objective {
 public:
  Inputs inputs(const ir::Module& module) const override {
    Inputs all = training_inputs(module);
    all.push_back({.name = "bytes", .type = {DType::f32, {all[0].type.shape[0], 1}}});
    return all;
  }

  Inputs training_inputs(const ir::Module& module) const override {
    const ir::Function& forward = module.function("forward");
    const Value tokens = forward.argument("tokens"), logits = forward.result("logits");
    if (!tokens || !logits || forward.type(tokens).rank() != 2 || forward.type(logits).rank() != 3) {
      user_error(
          "the objective next_token takes 'tokens' [batch, T] and gives 'logits' [batch, T, words]; the "
          "network has {} and {}",
          tokens ? to_string(forward.type(tokens)) : "no 'tokens'",
          logits ? to_string(forward.type(logits)) : "no 'logits'");
    }
    const ir::TensorType type = forward.type(tokens);
    const std::int64_t words = forward.type(logits).shape[2];
    Inputs all = {{.name = "tokens", .type = type, .categories = words, .kind = FieldKind::tokens},
                  {.name = "targets", .type = {DType::i32, type.shape}}};
    if (const Value documents = forward.argument("documents"))
      all.push_back({.name = "documents", .type = forward.type(documents)});
    return all;
  }

  Trained train(Builder& b, Network& network, const NamedValues& inputs) const override {
    const CountedSums sums = sums_of(b, network, inputs, "loss", {});
    // A batch in which no target counts has a loss of 0.
    const Value count = b.binary(Opcode::maximum, sums.count, b.constant_like(sums.count, 1));
    return {b.div(sums.loss, count), {{{"top1", "correct1", "targets"}, sums.correct, sums.count}}};
  }

  std::vector<Measured> evaluate(Builder& b, Network& network, const NamedValues& inputs,
                                 Value weight) const override {
    const CountedSums sums = sums_of(b, network, inputs, "eval", weight);
    const Value bytes = sum_all(b, b.mul(b.reshape(inputs.at("bytes"), b.shape(weight)), weight));
    return {{{"loss", "loss_sum", "targets"}, sums.loss, sums.count},
            {{"bits_per_byte", "bits", "bytes"}, b.mul(sums.loss, std::numbers::log2e), bytes},
            {{"top1", "correct1", "targets"}, sums.correct, sums.count}};
  }

 private:
  static CountedSums sums_of(Builder& b, Network& network, const NamedValues& inputs, const char* location,
                             Value weight) {
    NamedValues arguments = {{"tokens", inputs.at("tokens")}};
    if (const auto documents = inputs.find("documents"); documents != inputs.end())
      arguments.insert(*documents);
    const Value logits = network.call("forward", arguments).at("logits");
    b.set_location(location);
    const ir::Shape shape = b.shape(logits);
    const std::int64_t count = shape[0] * shape[1];
    if (weight)
      weight = b.reshape(b.broadcast(b.reshape(weight, {shape[0], 1}), {shape[0], shape[1]}), {count});
    return counted_cross_entropy(b, b.reshape(logits, {count, shape[2]}),
                                 b.reshape(inputs.at("targets"), {count}), weight);
  }
};

}  // namespace

extern const ObjectiveRow kNextToken{
    "next_token",
    "language modelling: cross-entropy of 'logits' [batch, T, words] against the next tokens",
    {{"loss", "loss", Shown::number},
     {"bits_per_byte", "bits/byte", Shown::number},
     {"top1", "top-1", Shown::percent, Better::higher}},
    {},
    [](const ir::Attributes&) -> std::unique_ptr<Objective> { return std::make_unique<NextToken>(); },
    /*has_pictures=*/false,
    /*samples=*/false,
    /*continues=*/true};

}  // namespace rewire::programs
