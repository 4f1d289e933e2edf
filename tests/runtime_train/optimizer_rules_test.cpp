// What holds for every optimizer: hints, schedules of the decay, ranges; and the rules of single ones that no reference
// shows.
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/error.h"
#include "models/model.h"
#include "programs/optimizer.h"
#include "programs/programs.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/runtime_train/resident_optimizers.h"
#include "tests/runtime_train/update_module.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::programs {
namespace {

constexpr std::int64_t kSteps = 9;
std::vector<UpdatedWeight> two_weights(const ir::OptimizerHint& hint = {}) {
  return {{"w", {4, 4}, true, "qkv", hint}, {"b", {3}, false, "norm", hint}};
}

WeightValues numbers_for(const std::vector<UpdatedWeight>& weights, int seed) {
  WeightValues values;
  for (const UpdatedWeight& weight : weights) {
    values[weight.name] = runtime::numbers(static_cast<std::size_t>(ir::element_count(weight.shape)), seed++);
  }
  return values;
}

/// Both weights behind some updates, by the evaluator.
WeightValues updated(const ir::Selection& optimizer, const std::vector<UpdatedWeight>& weights) {
  const ir::Module module = update_module(optimizer, weights, kSteps);
  UpdateRun run(optimizer, module, numbers_for(weights, 1));
  for (int step = 0; step < kSteps; ++step) run.update(numbers_for(weights, 10 + 2 * step));
  WeightValues last;
  for (const UpdatedWeight& weight : weights) last[weight.name] = run.read(weight.name);
  return last;
}

void check_close(const WeightValues& a, const WeightValues& b) {
  for (const auto& [name, values] : a) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      CAPTURE(name, i);
      CHECK(values[i] == Approx(b.at(name)[i]).epsilon(1e-9));
    }
  }
}

bool has_parameter(const std::string& optimizer, const std::string& name) {
  return ir::find_parameter(ir::find_row(optimizers(), "optimizer.name", optimizer).schema, name) != nullptr;
}

TEST_CASE("A hint's numbers stand instead of the run's, for every optimizer that has the quantity") {
  for (const std::string& name : resident_optimizers()) {
    CAPTURE(name);
    ir::Selection given{name};
    given.set("lr", 0.02).set("weight_decay", 0.3);
    ir::Selection meant{name};
    meant.set("lr", 0.02 * 0.5).set("weight_decay", 0.1).set("decay", std::string("all"));
    if (has_parameter(name, "beta1")) meant.set("beta1", 0.6).set("beta2", 0.7);
    const ir::OptimizerHint hint{0.5, 0.1, 0.6, 0.7};
    std::vector<UpdatedWeight> plain = two_weights(), hinted = two_weights(hint);
    if (name == "lars") {  // whose vectors decay by their hints alone
      plain.resize(1);
      hinted.resize(1);
    }
    check_close(updated(given, hinted), updated(meant, plain));
  }
}

TEST_CASE(
    "A decay that follows a schedule to where it begins is one that stays, but of weights with a hint") {
  for (const std::string& name : resident_optimizers()) {
    CAPTURE(name);
    ir::Selection stays{name};
    stays.set("lr", 0.02).set("weight_decay", 0.3);
    ir::Selection same = stays, changes = stays;
    same.set("weight_decay_end", 0.3);
    changes.set("weight_decay_end", 0.9);
    check_close(updated(stays, two_weights()), updated(same, two_weights()));
    CHECK(updated(stays, two_weights()).at("w") != updated(changes, two_weights()).at("w"));
    CHECK(updated(stays, two_weights()).at("b") == updated(changes, two_weights()).at("b"));
    const ir::OptimizerHint hint{{}, 0.3, {}, {}};
    CHECK(updated(stays, two_weights(hint)) == updated(changes, two_weights(hint)));
  }
}

TEST_CASE(
    "What decays is told by the rule: all, all but biases and what has one axis, or what the network says") {
  ir::Parameter token, bias, vector, matrix;
  token.name = "cls_token";
  token.type.shape = {1, 1, 4};
  token.decay = false;
  bias.name = "table.bias";
  bias.type.shape = {3, 4};
  vector.name = "norm.weight";
  vector.type.shape = {4};
  vector.decay = false;
  matrix.name = "head.weight";
  matrix.type.shape = {3, 4};
  const auto decays = [&](const std::string& rule) {
    const ir::Attributes values =
        ChosenOptimizer(ir::Selection{"adamw"}.set("weight_decay", 0.1).set("decay", rule)).values;
    std::vector<bool> found;
    for (const ir::Parameter* parameter : {&token, &bias, &vector, &matrix})
      found.push_back(settings_of(*parameter, values).decays());
    return found;
  };
  CHECK(decays("matrices") == std::vector<bool>{false, true, false, true});
  CHECK(decays("no_1d") == std::vector<bool>{true, false, false, true});
  CHECK(decays("all") == std::vector<bool>{true, true, true, true});
}

TEST_CASE("The decay goes from one value to the other by half a cosine wave, and needs an end of the run") {
  ir::Module module = runtime::linear_model(1, 2, 2);
  TrainOptions options;
  options.timeline.total_steps = kSteps;
  options.optimizer = {"sgd"};
  // Without a gradient the step is the decay alone: w' = w (1 - lr wd).
  options.optimizer.set("lr", 0.5)
      .set("momentum", 0.0)
      .set("weight_decay", 0.04)
      .set("weight_decay_end", 0.4);
  add_step_program(module, options);
  ir::EvalState state = runtime::start(module, {{"w", {1, 1, 1, 1}}});
  for (int step = 0; step < kSteps; ++step) {
    const double before = state.tensors.at("w").data[0];
    runtime::call(module, "step", {{0, 0}, {0}}, state);
    const double decay = 0.4 + (0.04 - 0.4) * (1 + std::cos(std::numbers::pi * step / kSteps)) / 2;
    CHECK(state.tensors.at("w").data[0] == Approx(before * (1 - 0.5 * decay)).epsilon(1e-12));
  }
  ir::Module endless = runtime::linear_model(1, 2, 2);
  options.timeline.total_steps = 0;
  CHECK(test::message_of<UserError>([&] { add_step_program(endless, options); }) ==
        "optimizer.weight_decay_end=0.4: the run has no end at which the decay could reach it");
}

TEST_CASE("Muon turns matrices between the first and the last layer, and leaves all others to AdamW") {
  const std::vector<UpdatedWeight> weights = {
      {"qkv", {6, 2}, true, "qkv"},          {"conv", {4, 2, 3, 3}, true, "conv"},
      {"row", {1, 5}, true, "fc1"},          {"bias", {4}, false, "fc1"},
      {"head", {3, 4}, true, "head"},        {"positions", {1, 3, 4}, false, "pos_embed"},
      {"stem", {4, 8}, true, "patch_embed"}, {"theta", {2, 2, 3}, true, "join"}};
  const ir::Module module = update_module({"muon"}, weights);
  for (const UpdatedWeight& weight : weights) {
    CAPTURE(weight.name);
    const bool turned = weight.name == "qkv" || weight.name == "conv";
    CHECK((module.find_parameter("muon.momentum." + weight.name) != nullptr) == turned);
    CHECK((module.find_parameter("muon.exp_avg_sq." + weight.name) != nullptr) == !turned);
  }
}

TEST_CASE("In the zoo's networks Muon leaves the stem and the head to AdamW, whatever their roles") {
  struct Row {
    const char *model, *outer, *hidden;
  };
  for (const Row& row : {Row{"resnet18", "conv1.weight", "layer1.0.conv1.weight"},
                         Row{"resnetv2_18", "stem.conv.weight", "stages.0.blocks.0.conv1.weight"},
                         Row{"pvt", "patch_embed1.proj.weight", "patch_embed2.proj.weight"},
                         Row{"t2t_vit", "tokens_to_token.attention1.kqv.weight", "blocks.0.attn.qkv.weight"},
                         Row{"mae_vit_tiny_28", "decoder_pred.weight", "decoder_blocks.0.mlp.fc1.weight"},
                         Row{"sit_tiny_28", "final_layer.linear.weight", "blocks.0.attn.qkv.weight"},
                         Row{"sit_tiny_28", "y_embedder.embedding_table.weight", "blocks.0.mlp.fc1.weight"},
                         Row{"vit", "head.weight", "blocks.0.attn.proj.weight"}}) {
    CAPTURE(row.model);
    ir::Module module = models::build({row.model}, 2);
    TrainOptions options;
    options.optimizer = {"muon"};
    if (std::string_view(row.model).starts_with("mae")) options.objective = {"mae"};
    if (std::string_view(row.model).starts_with("sit")) options.objective = {"diffusion"};
    add_step_program(module, options);
    CHECK(module.find_parameter(std::string("muon.exp_avg_sq.") + row.outer) != nullptr);
    CHECK(module.find_parameter(std::string("muon.momentum.") + row.hidden) != nullptr);
  }
}

TEST_CASE("LARS and LAMB leave the rate of a weight of zeros, and of a step of zeros, as it is") {
  for (const std::string& name : {std::string("lars"), std::string("lamb")}) {
    CAPTURE(name);
    ir::Selection chosen{name};
    chosen.set("lr", 0.5).set("weight_decay", 0.25);
    const std::vector<UpdatedWeight> weights = {{"w", {2, 2}}};
    const ir::Module module = update_module(chosen, weights);
    UpdateRun of_zeros(chosen, module, {{"w", {0, 0, 0, 0}}});
    of_zeros.update({{"w", {1, -2, 3, -4}}});
    // LAMB's first step is the sign of the gradient, but for eps.
    const double first = name == "lars" ? -0.5 : -0.5 / (1 + 1e-6);
    CHECK(of_zeros.read("w")[0] == Approx(first).epsilon(1e-9));
    of_zeros.update({{"w", {0, 0, 0, 0}}});
    for (const double value : of_zeros.read("w")) CHECK(std::isfinite(value));
  }
}

TEST_CASE("SOAP's first update moves nothing, and its states are those of its axes") {
  ir::Selection chosen{"soap"};
  chosen.set("max_precond_dim", std::int64_t{5});
  const std::vector<UpdatedWeight> weights = {
      {"w", {4, 6}}, {"thin", {1, 3}}, {"b", {3}, false}, {"s", {}, false}};
  const ir::Module module = update_module(chosen, weights);
  CHECK(module.find_parameter("soap.basis0.w")->type.shape == ir::Shape{4, 4});
  CHECK(module.find_parameter("soap.basis1.thin")->type.shape == ir::Shape{3, 3});
  for (const char* none : {"soap.basis1.w", "soap.basis0.thin", "soap.basis0.b", "soap.basis0.s"})
    CHECK(module.find_parameter(none) == nullptr);
  const WeightValues start = numbers_for(weights, 1);
  UpdateRun run(chosen, module, start);
  run.update(numbers_for(weights, 5));
  for (const UpdatedWeight& weight : weights) CHECK(run.read(weight.name) == start.at(weight.name));
  run.update(numbers_for(weights, 9));
  for (const UpdatedWeight& weight : weights) CHECK(run.read(weight.name) != start.at(weight.name));
  // A scalar's second update is Adam's first.
  CHECK(run.read("s")[0] ==
        Approx(start.at("s")[0] - 3e-3 * (numbers_for(weights, 9).at("s")[0] > 0 ? 1 : -1)).epsilon(1e-7));
}

/// basis^T basis - I, the largest entry.
double skewness(const std::vector<double>& basis, std::size_t n) {
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = i == j ? -1 : 0;
      for (std::size_t k = 0; k < n; ++k) sum += basis[k * n + i] * basis[k * n + j];
      worst = std::max(worst, std::abs(sum));
    }
  }
  return worst;
}

TEST_CASE(
    "SOAP's bases are orthonormal whatever the gradients' rank, and of one axis where that is asked for") {
  ir::Selection chosen{"soap"};
  chosen.set("precondition_frequency", std::int64_t{2}).set("precondition_1d", true);
  const std::vector<UpdatedWeight> weights = {{"tall", {7, 2}}, {"b", {5}, false}, {"still", {3, 3}}};
  const ir::Module module = update_module(chosen, weights);
  for (const int threads : {0, 2}) {  // evaluated, and compiled
    CAPTURE(threads);
    const WeightValues start = numbers_for(weights, 1);
    UpdateRun run =
        threads == 0 ? UpdateRun(chosen, module, start) : UpdateRun(chosen, module, start, threads);
    for (int step = 0; step < 6; ++step) {
      WeightValues gradients = numbers_for(weights, 5 + 3 * step);
      gradients.at("still").assign(9, 0);
      run.update(gradients);
      CHECK(skewness(run.read("soap.basis0.tall"), 7) < 1e-5);
      CHECK(skewness(run.read("soap.basis1.tall"), 2) < 1e-5);
      CHECK(skewness(run.read("soap.basis0.b"), 5) < 1e-5);
      CHECK(skewness(run.read("soap.basis0.still"), 3) < 1e-5);
    }
  }
}

TEST_CASE("SOAP's first refresh gives bases to weights that have none, and leaves the others theirs") {
  ir::Selection chosen{"soap"};
  const ir::Module module = update_module(chosen, {{"old", {3, 3}}, {"late", {3, 3}}});
  const std::vector<double> turned = {0, 1, 0, 1, 0, 0, 0, 0, 1}, gram = {2, 0, 0, 0, 1, 0, 0, 0, 3};
  ir::EvalState state = runtime::start(module, {{"soap.basis0.old", turned},
                                                {"soap.gram0.old", gram},
                                                {"soap.gram0.late", gram},
                                                {"soap.exp_avg.old", runtime::numbers(9, 4)}});
  runtime::call(module, "refresh_first", {}, state);
  CHECK(state.tensors.at("soap.basis0.old").data == turned);
  CHECK(state.tensors.at("soap.exp_avg.old").data == runtime::numbers(9, 4));
  CHECK(state.tensors.at("soap.basis0.late").data == std::vector<double>{0, 1, 0, 0, 0, 1, 1, 0, 0});
  // A refresh of a weight that never had a basis gives the identity.
  state = runtime::start(module, {});
  runtime::call(module, "refresh", {}, state);
  CHECK(state.tensors.at("soap.basis1.late").data == std::vector<double>{1, 0, 0, 0, 1, 0, 0, 0, 1});
}

TEST_CASE(
    "Refreshes run behind the first update of a phase, and behind every so many after the run's first") {
  using Names = std::vector<std::string>;
  CHECK(refreshes_behind(1, true, 3) == Names{"refresh_first"});
  CHECK(refreshes_behind(2, false, 3).empty());
  CHECK(refreshes_behind(3, false, 3).empty());
  CHECK(refreshes_behind(4, false, 3) == Names{"refresh"});
  CHECK(refreshes_behind(7, true, 3) == Names{"refresh_first", "refresh"});
  CHECK(refreshes_behind(8, true, 3) == Names{"refresh_first"});
  CHECK(refreshes_behind(1, true, 0).empty());
}

TEST_CASE("A step of SOAP that is not finite changes nothing but the flag") {
  ir::Module module = runtime::linear_model(1, 2, 2);
  TrainOptions options;
  options.optimizer = {"soap"};
  add_step_program(module, options);
  ir::EvalState state = runtime::start(module, {{"w", {1, 2, 3, 4}}});
  runtime::call(module, "step", {{1, 2}, {0}}, state);
  runtime::call(module, "refresh_first", {}, state);
  runtime::call(module, "step", {{2, -1}, {1}}, state);
  auto before = state.tensors;
  runtime::call(module, "step", {{std::numeric_limits<double>::quiet_NaN(), 2}, {0}}, state);
  CHECK(runtime::call(module, "refresh", {}, state).at("finite")[0] == 0);
  before.at("train.finite").data = {0};
  for (const auto& [name, tensor] : before) {
    CAPTURE(name);
    CHECK(state.tensors.at(name).data == tensor.data);
  }
}

TEST_CASE("Values out of range are refused by the key") {
  const auto refusal = [](const std::string& name, const std::string& parameter, const ir::Attribute& value) {
    ir::Selection chosen{name};
    chosen.set(parameter, value);
    return test::message_of<UserError>([&] { ChosenOptimizer{chosen}; });
  };
  const auto range = [](const std::string& key, const std::string& takes) {
    return "optimizer." + key + " is out of range: it takes " + takes;
  };
  CHECK(refusal("lion", "beta2", 1.0) == range("beta2=1", "a float >= 0 and < 1"));
  CHECK(refusal("lars", "trust_coefficient", 0.0) == range("trust_coefficient=0", "a float > 0"));
  CHECK(refusal("lars", "momentum", 1.5) == range("momentum=1.5", "a float 0 to 1"));
  CHECK(refusal("lamb", "eps", -1.0) == range("eps=-1", "a float >= 0"));
  CHECK(refusal("muon", "ns_steps", std::int64_t{100}) == range("ns_steps=100", "an int 1 to 99"));
  CHECK(refusal("muon", "adamw_lr_scale", 0.0) == range("adamw_lr_scale=0", "a float > 0"));
  CHECK(refusal("soap", "shampoo_beta", 1.0) == range("shampoo_beta=1", "a float >= -1 and < 1"));
  CHECK(refusal("soap", "max_precond_dim", std::int64_t{0}) ==
        range("max_precond_dim=0", "an int 1 to 32768"));
  CHECK(refusal("soap", "precondition_frequency", std::int64_t{0}) ==
        range("precondition_frequency=0", "an int 1 to 1000000000"));
  CHECK(refusal("sgd", "weight_decay_end", -2.0) == range("weight_decay_end=-2", "a float >= -1"));
}

TEST_CASE("muon with split_qkv moves q, k and v of a fused matrix as three matrices") {
  constexpr std::size_t kWidth = 4, kPart = kWidth * kWidth;
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  std::vector<double> weight(3 * kPart);
  for (double& value : weight) value = normal(random);
  const auto third = [](const std::vector<double>& all, std::size_t i) {
    return std::vector<double>(all.begin() + static_cast<std::ptrdiff_t>(i * kPart),
                               all.begin() + static_cast<std::ptrdiff_t>((i + 1) * kPart));
  };
  for (const std::string adjust : {"original", "match_rms_adamw"}) {
    CAPTURE(adjust);
    ir::Selection muon{"muon"};
    muon.set("adjust_lr_fn", adjust).set("lr", 0.1);
    const ir::Module apart =
        update_module(muon, {{"q", {4, 4}, true, "q"}, {"k", {4, 4}, true, "k"}, {"v", {4, 4}, true, "v"}});
    UpdateRun three(muon, apart, {{"q", third(weight, 0)}, {"k", third(weight, 1)}, {"v", third(weight, 2)}});
    const ir::Module together = update_module(muon, {{"w", {12, 4}, true, "qkv"}});
    UpdateRun whole(muon, together, {{"w", weight}});
    muon.set("split_qkv", true);
    const ir::Module split = update_module(muon, {{"w", {12, 4}, true, "qkv"}});
    UpdateRun parts(muon, split, {{"w", weight}});
    for (int step = 0; step < 3; ++step) {
      std::vector<double> gradient(3 * kPart);
      for (double& value : gradient) value = normal(random);
      three.update({{"q", third(gradient, 0)}, {"k", third(gradient, 1)}, {"v", third(gradient, 2)}});
      whole.update({{"w", gradient}});
      parts.update({{"w", gradient}});
    }
    const std::vector<double> got = parts.read("w");
    for (std::size_t i = 0; i < 3; ++i) {
      const std::vector<double> wanted = three.read(std::string(1, "qkv"[i]));
      for (std::size_t k = 0; k < kPart; ++k) CHECK(third(got, i)[k] == Approx(wanted[k]).margin(1e-12));
    }
    CHECK(whole.read("w") != got);
  }
}

}  // namespace
}  // namespace rewire::programs
