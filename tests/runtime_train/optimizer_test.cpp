// The optimizers against their textbook loops, step by step, with gradients given by hand.
#include "programs/optimizer.h"

#include <cmath>

#include "ir/error.h"
#include "ir/verify.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/support/catch.h"

namespace rewire::programs {
namespace {

using runtime::call;
using runtime::numbers;
using runtime::start;

constexpr std::size_t kSize = 5;

/// The parameters of both, as the loops below take them.
struct OptimizerOptions {
  std::string name = "adamw";
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.05;
  std::string decay = "matrices";
  double momentum = 0.9;
  bool nesterov = false;

  ir::Selection selection() const {
    ir::Selection chosen{name};
    chosen.set("lr", lr).set("weight_decay", weight_decay).set("decay", decay);
    chosen.set("beta1", beta1).set("beta2", beta2).set("eps", eps);
    return chosen.set("momentum", momentum).set("nesterov", nesterov);
  }
};

/// apply(w.g, b.g, step, finite): one update of "w" (decays) and "b" (does not), at the given rate; "b" has
/// the hint.
ir::Module optimizer_module(const OptimizerOptions& options, const ir::OptimizerHint& hint = {}) {
  ir::Module module;
  for (const char* name : {"w", "b"}) {
    ir::Parameter p;
    p.name = name;
    p.type = {ir::DType::f32, {static_cast<std::int64_t>(kSize)}};
    p.decay = p.name == "w";
    if (p.name == "b") p.hint = hint;
    module.add_parameter(p);
  }
  ir::Function apply;
  apply.name = "apply";
  ir::Builder b(module, apply);
  std::vector<Trainable> trainables;
  for (const char* name : {"w", "b"}) {
    ir::Value gradient = b.argument(std::string(name) + ".g", module.find_parameter(name)->type);
    trainables.push_back({name, b.param(name), gradient});
  }
  ir::Value step = b.argument("step", {ir::DType::i64, {}});
  ir::Value finite = b.argument("finite", {ir::DType::i1, {}});
  emit_updates(b, ChosenOptimizer(options.selection()), trainables,
               {b.constant(options.lr, ir::DType::f64), step}, finite);
  module.functions.push_back(std::move(apply));
  ir::verify(module);
  return module;
}

/// One element's history: m and v serve AdamW, u serves SGD.
struct Element {
  double w, m = 0, v = 0, u = 0;

  void adamw(double g, double t, double decay, const OptimizerOptions& o) {
    w *= 1 - o.lr * decay;
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(o.beta1, t)), v_hat = v / (1 - std::pow(o.beta2, t));
    w -= o.lr * m_hat / (std::sqrt(v_hat) + o.eps);
  }
  void sgd(double g, double t, double decay, const OptimizerOptions& o) {
    g += decay * w;
    u = t == 1 ? g : o.momentum * u + g;
    w -= o.lr * (o.nesterov ? g + o.momentum * u : u);
  }
};

void compare_with_loop(const OptimizerOptions& o, const ir::OptimizerHint& hint = {}) {
  const ir::Module module = optimizer_module(o, hint);
  OptimizerOptions hinted = o;
  hinted.lr *= hint.lr_scale.value_or(1);
  hinted.beta1 = hint.beta1.value_or(o.beta1);
  hinted.beta2 = hint.beta2.value_or(o.beta2);
  const std::map<std::string, std::vector<double>> initial = {{"w", numbers(kSize, 1)},
                                                              {"b", numbers(kSize, 2)}};
  ir::EvalState state = start(module, initial);
  std::map<std::string, std::vector<Element>> loop;
  for (const auto& [name, values] : initial) {
    for (double value : values) loop[name].push_back({value});
  }
  for (int t = 1; t <= 7; ++t) {
    const std::map<std::string, std::vector<double>> g = {{"w", numbers(kSize, 10 + t)},
                                                          {"b", numbers(kSize, 50 + t)}};
    call(module, "apply", {g.at("w"), g.at("b"), {t - 1.0}, {1}}, state);
    for (auto& [name, elements] : loop) {
      const bool has_hint = name == "b";
      const OptimizerOptions& of_weight = has_hint ? hinted : o;
      double decay = name == "w" || o.decay == "all" ? o.weight_decay : 0;
      if (has_hint) decay = hint.weight_decay.value_or(decay);
      for (std::size_t i = 0; i < kSize; ++i) {
        CAPTURE(t, name, i);
        if (o.name == "adamw") elements[i].adamw(g.at(name)[i], t, decay, of_weight);
        if (o.name == "sgd") elements[i].sgd(g.at(name)[i], t, decay, of_weight);
        CHECK(state.tensors.at(name).data[i] == Approx(elements[i].w).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("AdamW follows its equations, with decay decoupled and on matrices only") {
  OptimizerOptions options;
  options.lr = 0.05;
  options.weight_decay = 0.3;
  options.eps = 1e-3;
  compare_with_loop(options);
  options.decay = "all";
  compare_with_loop(options);
}

TEST_CASE("SGD follows its equations, plain, with momentum and with Nesterov's") {
  OptimizerOptions options;
  options.name = "sgd";
  options.lr = 0.1;
  options.weight_decay = 0.02;
  options.momentum = 0;
  compare_with_loop(options);
  options.momentum = 0.7;
  compare_with_loop(options);
  options.nesterov = true;
  options.decay = "all";
  compare_with_loop(options);
}

TEST_CASE(
    "A weight with a hint has the rate, decay and betas that it says, and the others those of the run") {
  const ir::OptimizerHint hints[] = {{10.0, {}, {}, {}}, {{}, 0.4, {}, {}}, {{}, 0.0, {}, {}},
                                     {{}, {}, 0.5, {}},  {{}, {}, {}, 0.9}, {0.3, 0.2, 0.0, 0.7}};
  for (const ir::OptimizerHint& hint : hints) {
    CAPTURE(to_string(hint));
    OptimizerOptions options;
    options.lr = 0.05;
    options.weight_decay = 0.3;
    options.eps = 1e-3;
    compare_with_loop(options, hint);
    options.decay = "all";
    compare_with_loop(options, hint);
    options.name = "sgd";
    options.momentum = 0.7;
    compare_with_loop(options, hint);
  }
}

TEST_CASE("SGD without momentum keeps no buffer") {
  OptimizerOptions options;
  options.name = "sgd";
  options.momentum = 0;
  CHECK(optimizer_module(options).parameters.size() == 2);
  options.momentum = 0.9;
  CHECK(optimizer_module(options).find_parameter("sgd.momentum.w") != nullptr);
}

TEST_CASE("An update whose flag is down changes nothing") {
  for (const char* name : {"adamw", "sgd"}) {
    OptimizerOptions options;
    options.name = name;
    const ir::Module module = optimizer_module(options);
    ir::EvalState state = start(module, {{"w", numbers(kSize, 1)}, {"b", numbers(kSize, 2)}});
    const auto before = state.tensors;
    const std::vector<double> nan(kSize, std::nan(""));
    call(module, "apply", {nan, nan, {0}, {0}}, state);
    for (const auto& [key, tensor] : before) CHECK(state.tensors.at(key).data == tensor.data);
  }
}

TEST_CASE("An optimizer that cannot be is refused by its recipe key") {
  auto refuses = [](auto change, const std::string& message) {
    OptimizerOptions options;
    change(options);
    CHECK_THROWS_WITH(ChosenOptimizer(options.selection()), REWIRE_CATCH_CONTAINS(message));
    CHECK_THROWS_AS(ChosenOptimizer(options.selection()), UserError);
  };
  refuses([](auto& o) { o.name = "adam"; }, "did you mean 'adamw'?");
  refuses([](auto& o) { o.decay = "al"; }, "did you mean 'all'?");
  refuses([](auto& o) { o.lr = -1; }, "optimizer.lr=-1 is out of range: it takes a float >= 0");
  refuses([](auto& o) { o.weight_decay = std::nan(""); }, "optimizer.weight_decay=nan is not a finite float");
  refuses([](auto& o) { o.beta1 = 1; }, "optimizer.beta1=1 is out of range: it takes a float >= 0 and < 1");
  refuses([](auto& o) { o.beta2 = -0.1; }, "optimizer.beta2=-0.1 is out of range");
  refuses(
      [](auto& o) {
        o.name = "sgd";
        o.momentum = 0;
        o.nesterov = true;
      },
      "optimizer.nesterov needs momentum");
}

}  // namespace
}  // namespace rewire::programs
