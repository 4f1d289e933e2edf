// Text of a network of language: read by token and at once, and the tokens that are drawn.
#include "runtime/measure/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/verify.h"
#include "models/model.h"
#include "programs/generate.h"
#include "runtime/exec/make_engine.h"
#include "runtime/network/initialise.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

ir::Module gpt(std::int64_t context) {
  ir::Selection model{"gpt2_nano"};
  model.set("dim", std::int64_t{24}).set("heads", std::int64_t{3}).set("depth", std::int64_t{2});
  return models::build(model.set("vocab", std::int64_t{50}).set("context", context), 1);
}

/// A network that takes the numbers of documents; a text is one document.
ir::Module documents(std::int64_t context) {
  ir::Selection model{"gpt2_nano"};
  model.set("dim", std::int64_t{24}).set("heads", std::int64_t{3}).set("depth", std::int64_t{2});
  return models::build(model.set("vocab", std::int64_t{50}).set("context", context).set("documents", true),
                       1);
}

ir::Module llama(std::int64_t context) {
  ir::Selection model{"llama_nano"};
  model.set("dim", std::int64_t{24}).set("heads", std::int64_t{4}).set("kv_heads", std::int64_t{2});
  model.set("depth", std::int64_t{2}).set("vocab", std::int64_t{50});
  return models::build(model.set("context", context), 1);
}

/// Attention over the last five tokens, positions of its own, a value of two axes more, a table over tokens.
ir::Module odd(std::int64_t context) {
  ir::Module module;
  module.name = "odd";
  ir::Function forward;
  forward.name = "forward";
  ir::Builder b(module, forward);
  const auto weight = [&](const std::string& name, ir::Shape shape) {
    ir::Parameter p;
    p.name = name;
    p.type = {ir::DType::f32, std::move(shape)};
    p.init = {ir::InitKind::normal, 0.5};
    return b.param(module.add_parameter(std::move(p)).name);
  };
  const ir::Value tokens = b.argument("tokens", {ir::DType::i64, {1, context}});
  const ir::Value flat = b.reshape(tokens, {context});
  ir::Value x = b.emit(ir::Opcode::gather, {weight("words", {50, 12}), flat}, {{"axis", std::int64_t{0}}});
  x = b.mul(b.reshape(x, {1, context, 12}), b.add(weight("scale", {context, 1}), 1.0));
  const auto heads = [&](const std::string& name, std::int64_t count, std::int64_t width) {
    const ir::Value y = b.linear(x, weight(name, {count * width, 12}));
    return b.transpose(b.reshape(y, {1, context, count, width}), {0, 2, 1, 3});
  };
  const ir::Value q = b.emit(ir::Opcode::rope, {heads("q", 4, 6)});
  const ir::Value k = b.emit(ir::Opcode::rope, {heads("k", 2, 6)});
  const ir::Value y = b.emit(ir::Opcode::attention, {q, k, heads("v", 2, 5)},
                             {{"scale", 0.7}, {"causal", true}, {"window", std::int64_t{5}}});
  const ir::Value merged = b.reshape(b.transpose(y, {0, 2, 1, 3}), {1, context, 20});
  const ir::Value parts[] = {merged, b.unary(ir::Opcode::tanh, b.slice(merged, 2, 3, 7))};
  const ir::Value joined = b.concat(parts, 2);
  const ir::Value largest = b.max(joined, {2});
  b.result("logits", b.linear(b.sub(joined, largest), weight("head", {50, 24})));
  module.functions.push_back(std::move(forward));
  return module;
}

std::unique_ptr<Engine> engine_for(const ir::Module& module, const std::string& name) {
  std::unique_ptr<Engine> engine = make_engine(name, module, {});
  for (auto& [weight, tensor] : initialise(module, 5)) {
    if (tensor.type().dtype == ir::DType::f32) {  // no neutral value: norms and biases too are perturbed
      std::mt19937 random(static_cast<std::uint32_t>(std::hash<std::string>()(weight)));
      std::normal_distribution<float> normal(0, 0.1F);
      const bool is_cache = weight.starts_with("cache.");
      for (float& value : tensor.as<float>()) value = is_cache ? 1e6F : value + normal(random);
    }
    engine->write_state(weight, tensor);
  }
  return engine;
}

/// Returns the logits of each token after the prompt, where the token that follows is given.
std::vector<std::vector<float>> logits_of(const ir::Module& forward, bool cached, const std::string& name,
                                          const std::vector<std::int32_t>& prompt, std::int64_t tokens) {
  ir::Module module = forward;
  if (cached) {
    programs::add_read_program(module, 1);
    if (programs::prompt_tokens(module) > 1)
      programs::add_read_program(module, programs::prompt_tokens(module));
  } else {
    programs::add_whole_program(module);
  }
  ir::verify(module);
  const std::unique_ptr<Engine> engine = engine_for(module, name);
  std::vector<std::vector<float>> all;
  generate(
      *engine, module, {.prompt = prompt, .tokens = tokens, .cached = cached, .drawing = {.temperature = 0}},
      [&](std::int32_t, std::span<const float> logits) { all.emplace_back(logits.begin(), logits.end()); });
  return all;
}

std::vector<std::int32_t> prompt_of(std::int64_t count) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>(i * i * 7 % 50));
  return tokens;
}

}  // namespace

TEST_CASE("kept keys and values give the logits of the whole network, whatever they held before") {
  struct Case {
    std::string name;
    ir::Module (*build)(std::int64_t);
    std::int64_t context, prompt, tokens;
  };
  const Case one = GENERATE(values<Case>({{"gpt2", gpt, 77, 3, 74},
                                          {"gpt2, long prompt", gpt, 131, 66, 65},
                                          {"documents", documents, 20, 3, 9},
                                          {"a prompt beyond the context", gpt, 13, 40, 1},
                                          {"llama", llama, 77, 64, 13},
                                          {"llama, one token", llama, 9, 1, 8},
                                          {"a window", odd, 71, 65, 6},
                                          {"a window, short", odd, 71, 2, 30}}));
  CAPTURE(one.name);
  const std::string engine = GENERATE("jit", "evaluator");
  CAPTURE(engine);
  const std::vector<std::int32_t> prompt = prompt_of(one.prompt);
  const auto kept = logits_of(one.build(one.context), true, engine, prompt, one.tokens);
  const auto whole = logits_of(one.build(one.context), false, engine, prompt, one.tokens);
  REQUIRE(kept.size() == static_cast<std::size_t>(one.tokens));
  REQUIRE(whole.size() == kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const float largest = std::abs(
        *std::ranges::max_element(whole[i], [](float a, float b) { return std::abs(a) < std::abs(b); }));
    for (std::size_t word = 0; word < kept[i].size(); ++word) {
      if (std::abs(kept[i][word] - whole[i][word]) > 2e-5F * largest) {
        CAPTURE(i, word, kept[i][word], whole[i][word]);
        FAIL("a logit differs");
      }
    }
  }
}

TEST_CASE("a full context goes on from half of it") {
  const ir::Module module = gpt(8);
  CHECK(logits_of(module, true, "jit", prompt_of(5), 20).size() == 20);
  CHECK(logits_of(module, false, "jit", prompt_of(5), 20).size() == 20);
  CHECK(logits_of(module, true, "jit", prompt_of(30), 2).size() == 2);
}

TEST_CASE("networks that mix tokens besides causal attention keep nothing, with the op's place") {
  const auto refusal = [](const auto& write) {
    ir::Module module;
    ir::Function forward;
    forward.name = "forward";
    ir::Builder b(module, forward);
    const ir::Value tokens = b.argument("tokens", {ir::DType::i32, {1, 6}});
    const ir::Value x = b.cast(b.broadcast(b.reshape(tokens, {1, 6, 1}), {1, 6, 4}), ir::DType::f32);
    b.set_location("blocks.0.mix");
    b.result("logits", write(b, x));
    module.functions.push_back(std::move(forward));
    return test::message_of<UserError>([&] { programs::add_read_program(module, 1); });
  };
  const std::string end =
      " at blocks.0.mix mixes tokens, so keys and values cannot be kept; compute each token anew "
      "(--no-cache)";
  CHECK(refusal([](ir::Builder& b, ir::Value x) { return b.add(x, b.sum(x, {1})); }) == "the op sum" + end);
  CHECK(refusal([](ir::Builder& b, ir::Value x) {
          const ir::Value parts[] = {b.slice(x, 1, 1, 6), b.slice(x, 1, 0, 1)};
          return b.concat(parts, 1);
        }) == "the op slice" + end);
  CHECK(refusal([](ir::Builder& b, ir::Value x) { return b.matmul(b.matmul(x, x, false, true), x); }) ==
        "the op matmul" + end);
  CHECK(refusal([](ir::Builder& b, ir::Value x) {  // a second operand that depends on tokens serves all
          const ir::Value rows = b.reshape(x, {6, 1, 4});
          const ir::Value seen = b.matmul(rows, b.reshape(x, {6, 4}), false, true);
          return b.reshape(b.matmul(seen, b.reshape(x, {6, 4})), {1, 6, 4});
        }) == "the op matmul" + end);
  CHECK(refusal([](ir::Builder& b, ir::Value x) {
          const ir::Value every = b.emit(
              ir::Opcode::slice, {x},
              {{"starts", ir::Ints{0, 0, 0}}, {"limits", ir::Ints{1, 6, 4}}, {"strides", ir::Ints{1, 2, 1}}});
          const ir::Value parts[] = {every, every};
          return b.concat(parts, 1);
        }) == "the op slice" + end);
  CHECK(refusal([](ir::Builder& b, ir::Value x) {
          const ir::Value head = b.reshape(x, {1, 1, 6, 4});
          return b.reshape(b.emit(ir::Opcode::attention, {head, head, head}, {{"scale", 1.0}}), {1, 6, 4});
        }) == "the op attention" + end);
  CHECK(refusal([](ir::Builder& b, ir::Value x) { return b.constant(0, ir::DType::f32, b.shape(x)); }) ==
        "the result 'logits' does not depend on the tokens");
}

TEST_CASE("tokens are drawn as often as their probabilities say, and by seed, text and place alone") {
  const std::vector<float> logits = {0.5F, 2.0F, -1.0F, 1.0F, 2.0F};
  const auto shares = [&](const Drawing& drawing) {
    std::vector<double> counts(logits.size());
    constexpr int kDraws = 20000;
    for (int place = 0; place < kDraws; ++place)
      counts[static_cast<std::size_t>(draw_token(logits, drawing, place))] += 1.0 / kDraws;
    return counts;
  };
  const auto expected = [&](double temperature, const std::vector<std::size_t>& words) {
    std::vector<double> all(logits.size());
    double total = 0;
    for (const std::size_t word : words) total += all[word] = std::exp(logits[word] / temperature);
    for (double& share : all) share /= total;
    return all;
  };
  using Row = std::tuple<Drawing, double, std::vector<std::size_t>>;
  const auto [drawing, temperature, words] = GENERATE(
      values<Row>({{{.temperature = 1, .seed = 3}, 1, {0, 1, 2, 3, 4}},
                   {{.temperature = 2.5, .seed = 4, .number = 2}, 2.5, {0, 1, 2, 3, 4}},
                   {{.temperature = 1, .top_k = 2, .seed = 5}, 1, {1, 4}},
                   {{.temperature = 1, .top_k = 3, .seed = 5}, 1, {1, 3, 4}},
                   {{.temperature = 1, .top_p = 0.75, .seed = 6}, 1, {1, 4}},  // 1 and 4 have .38 each
                   {{.temperature = 1, .top_p = 0.8, .seed = 6}, 1, {1, 3, 4}},
                   {{.temperature = 1, .top_p = 1e-9, .seed = 7}, 1, {1}},
                   {{.temperature = 0, .seed = 8}, 1, {1}}}));
  const std::vector<double> drawn = shares(drawing), wanted = expected(temperature, words);
  for (std::size_t word = 0; word < drawn.size(); ++word) {
    CAPTURE(word, drawing.top_k, drawing.top_p, drawing.temperature);
    CHECK(drawn[word] ==
          Approx(wanted[word]).margin(4 * std::sqrt(wanted[word] * (1 - wanted[word]) / 20000)));
    if (wanted[word] == 0) CHECK(drawn[word] == 0);
  }
  CHECK(shares(drawing) == drawn);
}

TEST_CASE("bad prompts and networks are refused") {
  ir::Module module = gpt(8);
  programs::add_whole_program(module);
  const std::unique_ptr<Engine> engine = engine_for(module, "jit");
  const auto refusal = [&](std::vector<std::int32_t> prompt) {
    return test::message_of<UserError>([&] {
      generate(*engine, module, {.prompt = std::move(prompt), .tokens = 1, .cached = false},
               [](auto, auto) {});
    });
  };
  CHECK(refusal({}) == "the prompt has no token: give some text");
  CHECK(refusal({3, 50}) == "token 50 is not in the vocabulary: the network has words 0 to 49");
  ir::Module image = models::build({"vit_tiny_28"}, 1);
  CHECK_THAT(test::message_of<UserError>([&] { programs::add_whole_program(image); }),
             REWIRE_CATCH_CONTAINS("text is drawn from networks that take 'tokens' [1, T] alone"));
}

}  // namespace rewire::runtime
