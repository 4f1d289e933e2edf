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
    const Sums sums = sums_of(b, network, inputs, "loss", {});
    // A batch in which no target counts has a loss of 0.
    const Value count = b.binary(Opcode::maximum, sums.count, b.constant_like(sums.count, 1));
    return {b.div(sums.loss, count), {{{"top1", "correct1", "targets"}, sums.correct, sums.count}}};
  }

  std::vector<Measured> evaluate(Builder& b, Network& network, const NamedValues& inputs,
                                 Value weight) const override {
    const Sums sums = sums_of(b, network, inputs, "eval", weight);
    const Value bytes = sum_all(b, b.mul(b.reshape(inputs.at("bytes"), b.shape(weight)), weight));
    return {{{"loss", "loss_sum", "targets"}, sums.loss, sums.count},
            {{"bits_per_byte", "bits", "bytes"}, b.mul(sums.loss, std::numbers::log2e), bytes},
            {{"top1", "correct1", "targets"}, sums.correct, sums.count}};
  }

 private:
  struct Sums {
    Value loss, correct, count;
  };

  static Sums sums_of(Builder& b, Network& network, const NamedValues& inputs, const char* location,
                      Value weight) {
    NamedValues arguments = {{"tokens", inputs.at("tokens")}};
    if (const auto documents = inputs.find("documents"); documents != inputs.end())
      arguments.insert(*documents);
    const Value logits = network.call("forward", arguments).at("logits");
    b.set_location(location);
    const ir::Shape shape = b.shape(logits);
    const std::int64_t count = shape[0] * shape[1], words = shape[2];
    Value rows = b.reshape(logits, {count, words});
    if (b.type(rows).dtype != DType::f64) rows = b.cast(rows, DType::f32);
    const Value target = b.reshape(inputs.at("targets"), {count});
    const Value zero = b.constant_like(target, 0);
    const Value is_word =
        b.binary(Opcode::logical_and, b.compare("ge", target, zero),
                 b.compare("lt", target, b.constant_like(target, static_cast<double>(words))));
    Value counted = b.cast(is_word, DType::f32);
    if (weight) {
      const Value each = b.broadcast(b.reshape(weight, {shape[0], 1}), {shape[0], shape[1]});
      counted = b.mul(counted, b.reshape(each, {count}));
    }
    const Value safe = b.select(is_word, target, b.broadcast(zero, {count}));
    const Value each = b.emit(Opcode::cross_entropy, {rows, safe}, {{"label_smoothing", 0.0}});
    const Value predicted = b.reshape(b.emit(Opcode::argmax, {rows}, {{"axis", std::int64_t{1}}}), {count});
    const Value hits = b.cast(b.compare("eq", b.cast(predicted, DType::i32), safe), DType::f32);
    return {sum_all(b, b.mul(b.cast(each, DType::f32), counted)), sum_all(b, b.mul(hits, counted)),
            sum_all(b, counted)};
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
    [](const ir::Attributes&) -> std::unique_ptr<Objective> { return std::make_unique<NextToken>(); }};

}  // namespace rewire::programs
