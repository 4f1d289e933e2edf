// chunk_rows: losses of wide logits and their gradients, whole and by chunks, under the evaluator.
#include <algorithm>
#include <array>
#include <random>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/passes/canonicalise.h"
#include "ir/passes/chunk_rows.h"
#include "ir/passes/cse.h"
#include "ir/passes/dce.h"
#include "ir/passes/decompose.h"
#include "ir/verify.h"
#include "tests/support/catch.h"
#include "tests/support/random_program.h"

namespace rewire::ir {
namespace {

struct Head {
  std::int64_t batch = 3, tokens = 5, width = 2, words = 37;
  bool bias = false, softcap = false, log_sum_exp_loss = false, largest = false, all_logits = false;
  double smoothing = 0;
};

Head random_head(std::mt19937& random) {
  const auto below = [&](int n) { return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random); };
  Head head;
  head.batch = 1 + below(4);
  head.tokens = 3 + below(9);
  head.width = 1 + below(4);
  head.words = 8 * head.width + below(20);
  head.bias = below(2) == 0;
  head.softcap = below(2) == 0;
  head.log_sum_exp_loss = below(2) == 0;
  head.largest = below(2) == 0;
  head.smoothing = below(2) == 0 ? 0 : 0.1;
  return head;
}

Value total(Builder& b, Value x) {
  return b.reshape(b.sum(x, {0}), {});
}

/// loss, number of right guesses, and the gradients in x, the matrix and the bias.
Module language_head(const Head& head) {
  Module module;
  module.name = "head";
  Function& function = module.functions.emplace_back();
  function.name = "f";
  Builder b(module, function);
  const std::int64_t rows = head.batch * head.tokens;
  const Value x = b.argument("x", {DType::f64, {head.batch, head.tokens, head.width}});
  const Value matrix = b.argument("matrix", {DType::f64, {head.words, head.width}});
  const Value offset = b.argument("offset", {DType::f64, {head.words}});
  const Value labels = b.argument("labels", {DType::i32, {head.batch, head.tokens}});
  Value logits = b.linear(x, matrix, head.bias ? offset : Value{});
  if (head.softcap) logits = b.mul(b.unary(Opcode::tanh, b.div(logits, 3)), 3);
  const Value flat = b.reshape(logits, {rows, head.words});
  const Value flat_labels = b.reshape(labels, {rows});
  const Value each =
      b.emit(Opcode::cross_entropy, {flat, flat_labels}, {{"label_smoothing", head.smoothing}});
  Value loss = b.div(total(b, each), static_cast<double>(rows));
  if (head.log_sum_exp_loss) {
    const Value sums = b.unary(Opcode::log, b.sum(b.unary(Opcode::exp, flat), {1}));
    loss = b.add(loss, b.mul(total(b, b.reshape(b.mul(sums, sums), {rows})), 0.25));
  }
  b.result("loss", loss);
  if (head.largest) {
    const Value best = b.reshape(b.emit(Opcode::argmax, {flat}, {{"axis", std::int64_t{1}}}), {rows});
    b.result("right", total(b, b.cast(b.compare("eq", best, flat_labels), DType::f64)));
  }
  if (head.all_logits) b.result("logits", logits);
  const std::vector<Value> gradients = differentiate(b, loss, std::array{x, matrix, offset});
  b.result("dx", gradients[0]);
  b.result("dmatrix", gradients[1]);
  b.result("doffset", gradients[2]);
  PassContext context;
  decompose(module, context);
  dce(module, context);
  canonicalise(module, context);
  cse(module, context);
  dce(module, context);
  return module;
}

std::vector<Tensor> run(const Module& module, const Head& head, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<Tensor> arguments;
  for (const Argument& argument : module.functions[0].arguments) {
    Tensor& tensor = arguments.emplace_back(module.functions[0].type(argument.value));
    for (double& value : tensor.data)
      value = argument.name == "labels"
                  ? static_cast<double>(random() % static_cast<std::uint32_t>(head.words))
                  : normal(random);
  }
  EvalState state;
  return evaluate(module, module.functions[0], arguments, state);
}

std::int64_t largest_value(const Module& module) {
  std::int64_t largest = 0;
  for (const Op& op : module.functions[0].body) {
    for (Value result : op.results) largest = std::max(largest, module.functions[0].type(result).bytes());
  }
  return largest;
}

}  // namespace

TEST_CASE("chunk_rows keeps losses and gradients, and no chunk is larger than asked", "[ir][passes]") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const Head head = random_head(random);
    const Module whole = language_head(head);
    Module chunked = whole;
    PassContext context;
    context.chunk_bytes = (2 + static_cast<std::int64_t>(seed % 3)) * head.words * 8 / 2;
    chunk_rows(chunked, context);
    verify(chunked);
    const std::int64_t gradients =
        std::max(head.words * head.width, head.batch * head.tokens * head.width) * 8;
    const std::int64_t logits = head.batch * head.tokens * head.words * 8;
    CHECK(largest_value(whole) == std::max(logits, gradients));
    CAPTURE(head.batch, head.tokens, head.width, head.words, head.bias, head.softcap, head.log_sum_exp_loss,
            head.largest, head.smoothing, context.chunk_bytes);
    if (logits >= 3 * context.chunk_bytes)
      CHECK(largest_value(chunked) <= std::max(context.chunk_bytes, gradients));
    CHECK(testing::first_difference(run(whole, head, seed), run(chunked, head, seed), 1e-12) == "");
  }
}

TEST_CASE("chunk_rows leaves whole what is small, a result, or not computed by rows", "[ir][passes]") {
  const auto is_changed = [](const Module& before, std::int64_t bytes) {
    Module after = before;
    PassContext context;
    context.chunk_bytes = bytes;
    chunk_rows(after, context);
    return after.functions[0].body.size() != before.functions[0].body.size();
  };
  Head head;
  const std::int64_t logits = head.batch * head.tokens * head.words * 8;
  const Module module = language_head(head);
  CHECK(is_changed(module, logits / 3));
  CHECK_FALSE(is_changed(module, 0));           // off
  CHECK_FALSE(is_changed(module, logits));      // fits
  CHECK_FALSE(is_changed(module, head.words));  // not even a row fits
  Head kept = head;
  kept.all_logits = true;
  CHECK_FALSE(is_changed(language_head(kept), logits / 3));
  Head narrow = head;
  narrow.words = kWidened * narrow.width - 1;
  CHECK_FALSE(is_changed(language_head(narrow), narrow.batch * narrow.tokens * narrow.words * 8 / 3));

  Module columns;  // a softmax over the rows
  Function& function = columns.functions.emplace_back();
  function.name = "f";
  Builder b(columns, function);
  const Value x = b.argument("x", {DType::f64, {15, 2}}), w = b.argument("w", {DType::f64, {2, 37}});
  b.result("y", b.sum(b.emit(Opcode::softmax, {b.matmul(x, w)}, {{"axis", std::int64_t{0}}}), {1}));
  PassContext context;
  decompose(columns, context);
  CHECK_FALSE(is_changed(columns, logits / 3));

  Module counts;  // a sum over rows that no product computes
  Function& counting = counts.functions.emplace_back();
  counting.name = "f";
  Builder c(counts, counting);
  const Value rows = c.argument("x", {DType::f64, {15, 2}}), matrix = c.argument("w", {DType::f64, {2, 37}});
  const Value wide = c.matmul(rows, matrix);
  c.result("y", c.sum(c.cast(c.compare("eq", wide, c.max(wide, {1})), DType::i32), {0}));
  CHECK_FALSE(is_changed(counts, logits / 3));
}

}  // namespace rewire::ir
