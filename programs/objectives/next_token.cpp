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
  explicit NextToken(double z_loss) : z_loss_(z_loss) {}

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
    const Value logits = logits_of(b, network, inputs, "loss");
    const CountedSums sums = sums_of(b, logits, inputs, {});
    // A batch in which no target counts has a loss of 0.
    const Value count = b.binary(Opcode::maximum, sums.count, b.constant_like(sums.count, 1));
    Value loss = b.div(sums.loss, count);
    if (z_loss_ > 0) loss = b.add(loss, b.mul(b.div(squared_partitions(b, logits, inputs), count), z_loss_));
    return {loss, {{{"top1", "correct1", "targets"}, sums.correct, sums.count}}, {}, sums.count};
  }

  std::vector<Measured> evaluate(Builder& b, Network& network, const NamedValues& inputs,
                                 Value weight) const override {
    const CountedSums sums = sums_of(b, logits_of(b, network, inputs, "eval"), inputs, weight);
    const Value bytes = sum_all(b, b.mul(b.reshape(inputs.at("bytes"), b.shape(weight)), weight));
    return {{{"loss", "loss_sum", "targets"}, sums.loss, sums.count},
            {{.name = "perplexity", .numerator = "loss_sum", .denominator = "targets", .exponential = true},
             sums.loss,
             sums.count},
            {{"bits_per_byte", "bits", "bytes"}, b.mul(sums.loss, std::numbers::log2e), bytes},
            {{"top1", "correct1", "targets"}, sums.correct, sums.count}};
  }

 private:
  /// Returns the logits [targets, words].
  static Value logits_of(Builder& b, Network& network, const NamedValues& inputs, const char* location) {
    NamedValues arguments = {{"tokens", inputs.at("tokens")}};
    if (const auto documents = inputs.find("documents"); documents != inputs.end())
      arguments.insert(*documents);
    const Value logits = network.call("forward", arguments).at("logits");
    b.set_location(location);
    const ir::Shape shape = b.shape(logits);
    return b.reshape(logits, {shape[0] * shape[1], shape[2]});
  }

  /// `weight` [batch, 1], of each window; invalid: all 1.
  static CountedSums sums_of(Builder& b, Value logits, const NamedValues& inputs, Value weight) {
    const ir::Shape shape = b.shape(inputs.at("targets"));
    const std::int64_t count = shape[0] * shape[1];
    if (weight) weight = b.reshape(b.broadcast(b.reshape(weight, {shape[0], 1}), shape), {count});
    return counted_cross_entropy(b, logits, b.reshape(inputs.at("targets"), {count}), weight);
  }

  /// Returns the sum of log(sum(exp(logits)))^2 over the targets that count (the z-loss of PaLM, Chowdhery et al., 2022).
  static Value squared_partitions(Builder& b, Value logits, const NamedValues& inputs) {
    if (b.type(logits).dtype != DType::f64) logits = b.cast(logits, DType::f32);
    const Value largest = b.unary(Opcode::stop_gradient, b.max(logits, {1}));
    const Value sum = b.sum(b.unary(Opcode::exp, b.sub(logits, largest)), {1});
    const Value partition = b.add(b.unary(Opcode::log, sum), largest);
    const Value target = b.reshape(inputs.at("targets"), b.shape(partition));
    const Value counts = b.cast(is_class(b, target, b.shape(logits)[1]), b.type(partition).dtype);
    return b.cast(sum_all(b, b.mul(b.mul(partition, partition), counts)), DType::f32);
  }

  const double z_loss_;
};

}  // namespace

extern const ObjectiveRow kNextToken{
    "next_token",
    "language modelling: cross-entropy of 'logits' [batch, T, words] against the next tokens",
    {{"loss", "loss", Shown::number},
     {"perplexity", "perplexity", Shown::number},
     {"bits_per_byte", "bits/byte", Shown::number},
     {"top1", "top-1", Shown::percent, Better::higher}},
    {ir::float_parameter("z_loss", 0,
                         "weight of the mean square of the logits' log-sum-exp, which the loss gets too")
         .at_least(0)},
    [](const ir::Attributes& values) -> std::unique_ptr<Objective> {
      return std::make_unique<NextToken>(values.get_double("z_loss"));
    },
    /*has_pictures=*/false,
    /*samples=*/false,
    /*continues=*/true};

}  // namespace rewire::programs
