// Options of language models and of their objective, under the evaluator.
#include <cmath>
#include <random>

#include "ir/evaluate.h"
#include "models/model.h"
#include "programs/programs.h"
#include "runtime/network/initialise.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

ir::Selection small(const std::string& name, std::int64_t context) {
  ir::Selection model{name};
  model.set("dim", std::int64_t{8}).set("heads", std::int64_t{2}).set("depth", std::int64_t{2});
  return model.set("vocab", std::int64_t{11}).set("context", context);
}

ir::EvalState perturbed(const ir::Module& module) {
  ir::EvalState state;
  for (const auto& [name, tensor] : initialise(module, 3)) {
    ir::Tensor value = to_double(tensor);
    std::mt19937 random(static_cast<std::uint32_t>(std::hash<std::string>()(name)));
    std::normal_distribution<double> normal(0, 0.4);
    if (module.find_parameter(name)->is_weight()) {
      for (double& number : value.data) number += normal(random);
    }
    state.tensors.emplace(name, std::move(value));
  }
  return state;
}

/// Runs a program; all arguments are [1, T] integers.
std::vector<ir::Tensor> run(const ir::Module& module, const std::string& program,
                            const std::vector<std::vector<double>>& arguments) {
  const ir::Function& function = module.function(program);
  std::vector<ir::Tensor> given;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    given.emplace_back(function.type(function.arguments[i].value), arguments[i]);
  ir::EvalState state = perturbed(module);
  return ir::evaluate(module, function, given, state);
}

}  // namespace

TEST_CASE("a packed window's tokens see their own document alone, wherever it begins") {
  const std::vector<double> tokens = {3, 1, 4, 1, 5, 9, 2, 6}, documents = {0, 0, 0, 1, 2, 2, 2, 2};
  const ir::Module packed =
      models::build(small("llama_nano", 8).set("documents", true).set("kv_heads", std::int64_t{1}), 1);
  const std::vector<double> all = run(packed, "forward", {tokens, documents})[0].data;
  for (const auto& [begin, end] : {std::pair{0, 3}, {3, 4}, {4, 8}}) {
    CAPTURE(begin);
    const ir::Module alone =
        models::build(small("llama_nano", end - begin).set("kv_heads", std::int64_t{1}), 1);
    const std::vector<double> own =
        run(alone, "forward", {{tokens.begin() + begin, tokens.begin() + end}})[0].data;
    for (std::size_t i = 0; i < own.size(); ++i)
      CHECK(all[static_cast<std::size_t>(begin) * 11 + i] == Approx(own[i]).margin(1e-9));
  }
}

TEST_CASE("softcap bends logits, and a window hides earlier tokens") {
  const std::vector<double> tokens = {3, 1, 4, 1, 5, 9};
  for (const std::string name : {"gpt2_nano", "llama_nano"}) {
    CAPTURE(name);
    ir::Selection model = small(name, 6);
    if (name == "llama_nano") model.set("kv_heads", std::int64_t{2});
    const std::vector<double> plain = run(models::build(model, 1), "forward", {tokens})[0].data;
    ir::Selection capped = model;
    const std::vector<double> bent =
        run(models::build(capped.set("softcap", 0.75), 1), "forward", {tokens})[0].data;
    for (std::size_t i = 0; i < plain.size(); ++i)
      CHECK(bent[i] == Approx(0.75 * std::tanh(plain[i] / 0.75)).epsilon(1e-12));
    // With two blocks and a window of 2, the last token is reached by the two before it alone.
    const ir::Module near = models::build(model.set("window", std::int64_t{2}), 1);
    const auto last = [&](const std::vector<double>& given) {
      const std::vector<double> logits = run(near, "forward", {given})[0].data;
      return std::vector<double>(logits.end() - 11, logits.end());
    };
    const std::vector<double> seen = last(tokens);
    CHECK(last({7, 0, 2, 1, 5, 9}) == seen);
    CHECK(last({3, 1, 4, 2, 5, 9}) != seen);
  }
}

TEST_CASE("z_loss adds its share of the squared log-sum-exp of targets that count, to training alone") {
  const ir::Selection model = small("gpt2_nano", 6);
  const std::vector<double> tokens = {3, 1, 4, 1, 5, 9}, targets = {1, -1, 1, 5, -100, 2};
  ir::Module module = models::build(model, 1);
  const std::vector<double> logits = run(module, "forward", {tokens})[0].data;
  double squares = 0, entropy = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0) continue;
    double sum = 0;
    for (std::size_t word = 0; word < 11; ++word) sum += std::exp(logits[i * 11 + word]);
    squares += std::log(sum) * std::log(sum) / 4;
    entropy += (std::log(sum) - logits[i * 11 + static_cast<std::size_t>(targets[i])]) / 4;
  }
  for (const double weight : {0.0, 0.3}) {
    programs::TrainOptions options;
    options.objective = ir::Selection{"next_token"}.set("z_loss", weight);
    ir::Module training = module;
    programs::add_grad_program(training, options);
    CHECK(run(training, "grad", {tokens, targets})[0].scalar() ==
          Approx(entropy + weight * squares).epsilon(1e-6));
  }
}

TEST_CASE("batches with unequal masks make the step of one batch, in micro-batches and in shards") {
  const std::vector<double> tokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4},
                            targets = {
                                1, -1, 1, 5, -100, 2, 6,  -1, -1, -1, -1, -1,
                                7, 9,  3, 2, 3,    8, -1, -1, -1, -1, -1, -1};  // the last window has none
  const ir::Module network = models::build(small("gpt2_nano", 6), 1),
                   wide = models::build(small("gpt2_nano", 6), 4);
  programs::TrainOptions options;
  options.objective = ir::Selection{"next_token"}.set("z_loss", 0.1);
  options.optimizer = ir::Selection{"sgd"}.set("lr", 0.5);
  const auto part = [](const std::vector<double>& all, std::size_t i) {
    return std::vector<double>(all.begin() + static_cast<std::ptrdiff_t>(6 * i),
                               all.begin() + static_cast<std::ptrdiff_t>(6 * i + 6));
  };
  std::map<std::string, double> sums;  // of the programs' results
  const auto step = [&](const ir::Module& of, const std::vector<std::string>& names, ir::EvalState& state,
                        const std::vector<std::vector<double>>& arguments) {
    for (const std::string& name : names) {
      const ir::Function& function = of.function(name);
      std::vector<ir::Tensor> given;
      for (std::size_t i = 0; i < function.arguments.size(); ++i)
        given.emplace_back(function.type(function.arguments[i].value), arguments[i]);
      state.training = function.trains;
      const std::vector<ir::Tensor> results = ir::evaluate(of, function, given, state);
      for (std::size_t i = 0; i < results.size(); ++i) sums[function.results[i].name] += results[i].scalar();
    }
  };
  ir::Module whole = wide;
  programs::add_step_program(whole, options);
  ir::EvalState expected = perturbed(whole);
  step(whole, {"step"}, expected, {tokens, targets});
  const double loss = sums.at("loss_sum") / sums.at("terms");
  CHECK(loss == Approx(sums.at("loss")).epsilon(1e-6));
  CHECK(sums.at("terms") == 11);

  for (const auto& [accumulate, shards] : {std::pair{4, 1}, {1, 4}, {2, 2}}) {
    CAPTURE(accumulate, shards);
    ir::Module parts = network;
    options.accumulate = accumulate;
    options.shards = options.own_shards = shards;
    programs::add_step_program(parts, options);
    ir::EvalState state = perturbed(parts);
    sums.clear();
    std::size_t window = 0;
    for (std::int64_t shard = 0; shard < shards; ++shard) {
      for (int micro = 0; micro < accumulate; ++micro, ++window)
        step(parts, {"accumulate"}, state, {part(tokens, window), part(targets, window)});
      if (shards > 1) step(parts, {programs::fold_behind(shard)}, state, {});
    }
    step(parts, {"apply"}, state, {});
    CHECK(sums.at("loss_sum") / sums.at("terms") == Approx(loss).epsilon(1e-6));
    if (accumulate > 1) CHECK(state.tensors.at("accumulate.terms of the loss").scalar() == 0);
    for (const ir::Parameter& parameter : network.parameters) {
      CAPTURE(parameter.name);
      const std::vector<double>& got = state.tensors.at(parameter.name).data;
      const std::vector<double>& want = expected.tensors.at(parameter.name).data;
      for (std::size_t i = 0; i < want.size(); ++i) {
        if (std::abs(got[i] - want[i]) > 1e-9) {
          CAPTURE(i, got[i], want[i]);
          FAIL("a weight differs");
        }
      }
    }
  }
}

}  // namespace rewire::runtime
