// Values within the network by their role: replacing one by its multiple is what scaling weights would do.
#include <algorithm>
#include <functional>

#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/residual.h"
#include "ir/text.h"
#include "models/layers.h"
#include "models/model.h"
#include "models/trial.h"
#include "runtime/plugin/branch_weights.h"
#include "tests/runtime_plugin/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

ir::Module vit() {
  return models::trial_networks().at(0).module;
}

/// Every parameter without pattern, so that no norm or bias is a one or zero that would hide a mistake.
ir::EvalState patterned_state(const ir::Module& module) {
  ir::EvalState state;
  double phase = 0;
  for (const ir::Parameter& parameter : module.parameters)
    state.tensors[parameter.name] = sample(parameter.type, phase += 1);
  return state;
}

std::vector<double> logits(const ir::Module& module, ir::EvalState state) {
  const ir::Function& forward = module.function("forward");
  const ir::Tensor image = sample(forward.type(forward.arguments.front().value), 0.5);
  return ir::evaluate(module, forward, {image}, state).at(0).data;
}

std::string error_of(ir::Module module, const std::vector<runtime::PluginHandle>& plugins) {
  return message_of<UserError>([&] { runtime::apply_plugins(module, plugins, 11); });
}

void check_same(const std::vector<double>& given, const std::vector<double>& wanted) {
  REQUIRE(given.size() == wanted.size());
  for (std::size_t i = 0; i < given.size(); ++i)
    CHECK(given[i] == Approx(wanted[i]).epsilon(1e-5).margin(1e-6));
}

struct Scaled {
  const char* role;
  const char* filters;
  double factor;
  std::vector<std::string> weights;  // that end so, scaled by the factor
  std::size_t first = 0, last = 1;   // of thirds of the weight's rows
};

/// A multiple of q is what that third of qkv's rows, scaled, computes; -x is normed to what norm.weight, with
/// its sign changed, makes of x; …
const std::vector<Scaled> kScaled = {
    {"norm_input", "", -1, {"norm1.weight", "norm2.weight"}, 0, 3},
    {"input", "", 3, {"norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"}, 0, 3},
    {"q", "sites=attn", 3, {"qkv.weight", "qkv.bias"}, 0, 1},
    {"k", "sites=attn", 3, {"qkv.weight", "qkv.bias"}, 1, 2},
    {"v", "sites=attn,layers=1", -2, {"blocks.1.attn.qkv.weight", "blocks.1.attn.qkv.bias"}, 2, 3},
    {"attention", "sites=attn", 3, {"attn.proj.weight"}, 0, 3},
    {"hidden", "", 3, {"attn.proj.weight", "fc2.weight"}, 0, 3},
    {"entry", "", 3, {"cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"}, 0, 3},
    {"exit", "", -1, {"norm.weight"}, 0, 3},
};

bool is_scaled(const Scaled& scaled, const std::string& name) {
  if (name == "norm.weight") return std::string(scaled.role) == "exit";
  return std::ranges::any_of(scaled.weights, [&](const std::string& end) { return name.ends_with(end); });
}

ir::EvalState scaled_state(const ir::Module& module, const Scaled& scaled) {
  ir::EvalState state = patterned_state(module);
  for (auto& [name, tensor] : state.tensors) {
    if (!is_scaled(scaled, name)) continue;
    const std::size_t third = tensor.data.size() / 3;
    const bool whole = scaled.last - scaled.first == 3;
    const std::size_t begin = whole ? 0 : scaled.first * third;
    const std::size_t end = whole ? tensor.data.size() : scaled.last * third;
    for (std::size_t i = begin; i < end; ++i) tensor.data[i] *= scaled.factor;
  }
  return state;
}

TEST_CASE("A value replaced by its multiple is what scaled weights would compute") {
  const ir::Module plain = vit();
  const std::vector<double> before = logits(plain, patterned_state(plain));
  for (const Scaled& scaled : kScaled) {
    for (const char* act : {"scale", "weigh"}) {
      CAPTURE(scaled.role, act);
      std::string values = fmt::format("role={},act={},factor={}", scaled.role, act, scaled.factor);
      if (*scaled.filters != '\0') values += fmt::format(",{}", scaled.filters);
      const ir::Module module = rewritten(vit(), {load("reach", values)});
      ir::EvalState state = patterned_state(plain);
      for (const auto& [name, tensor] : to_eval_state(runtime::initialise(module, 11)).tensors)
        if (name.find("join_") != std::string::npos) state.tensors[name] = tensor;
      const std::vector<double> given = logits(module, state);
      check_same(given, logits(plain, scaled_state(plain, scaled)));
      CHECK(given != before);
      CHECK(ir::print(ir::parse(ir::print(module))) == ir::print(module));
    }
  }
}

TEST_CASE("A value may be used before the join that it was made at, where it does not depend on itself") {
  const ir::Module plain = vit();
  const Scaled scaled{"input", "", 3, {"norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"}, 0, 3};
  const ir::Module module = rewritten(vit(), {load("reach", "act=last_to_first,factor=3")});
  ir::EvalState state = patterned_state(plain);
  for (const ir::Parameter& parameter : module.parameters)
    if (parameter.name.starts_with("blocks.1.join_mlp.factor"))
      state.tensors[parameter.name] = sample(parameter.type), state.tensors[parameter.name].data = {3};
  CHECK(state.tensors.contains("blocks.1.join_mlp.factor0"));
  check_same(logits(module, state), logits(plain, scaled_state(plain, scaled)));
}

TEST_CASE("What another plugin has replaced is kept or refused, never lost") {
  const auto reach = [](const std::string& role, const std::string& act = "scale", const char* factor = "2") {
    const bool attention = role == "q" || role == "v";
    return load("reach",
                fmt::format("role={},act={},factor={}{}", role, act, factor, attention ? ",sites=attn" : ""));
  };
  const ir::Module plain = vit();
  for (const char* role : {"q", "hidden", "entry"}) {
    CAPTURE(role);
    const ir::Module both = rewritten(vit(), {reach(role), reach(role, "scale", "1.5")});
    const ir::Module once = rewritten(vit(), {reach(role, "scale", "3")});
    check_same(logits(both, patterned_state(plain)), logits(once, patterned_state(plain)));
    CHECK_THAT(error_of(vit(), {reach(role), reach(role, "cut")}),
               REWIRE_CATCH_CONTAINS("has been replaced by plugin 'reach', which would be lost"));
  }
  for (const char* role : {"input", "exit"}) {
    CHECK_THAT(error_of(vit(), {reach(role), reach(role)}),
               REWIRE_CATCH_CONTAINS("has been replaced by plugin 'reach', which would be lost"));
  }
  CHECK_THAT(error_of(vit(), {reach("norm_input"), reach("input", "cut")}),
             REWIRE_CATCH_CONTAINS("the 'norm_input' of blocks.0.attn has been replaced by plugin 'reach'"));
  CHECK(error_of(vit(), {reach("norm_input"), reach("input")}) == "(nothing was thrown)");
  CHECK_THAT(error_of(vit(), {reach("input", "cut"), reach("norm_input")}),
             REWIRE_CATCH_CONTAINS("blocks.0.attn has no 'norm_input'"));
}

TEST_CASE("A replacement that cannot be is one line with the plugin's line in it") {
  const std::map<std::string, std::string> acts = {
      {"role=query",
       "'query' is not a role of a value; choose from norm_input, input, q, k, v, attention, hidden, entry"},
      {"role=q", "blocks.0.mlp has no 'q'"},
      {"role=input,act=twice", "it replaced the 'input' of blocks.0.attn twice"},
      {"role=input,act=circle",
       "it gave the 'input' of blocks.0.attn a value that is computed from it, at blocks.0.attn.reach "
       "(replace, reach.cpp:"},
      {"role=hidden,act=type",
       "it gave the 'hidden' of blocks.0.attn the type f32[2,5,1]; the value it replaces is f32[2,5,8] and "
       "must not change (replace, reach.cpp:"},
  };
  for (const auto& [values, words] : acts) {
    CAPTURE(values);
    CHECK_THAT(error_of(vit(), {load("reach", values)}),
               REWIRE_CATCH_CONTAINS("plugin 'reach': ") && REWIRE_CATCH_CONTAINS(words));
  }
  CHECK(error_of(vit(), {load("reach", "role=q,act=skip")}) == "(nothing was thrown)");
}

TEST_CASE("Feature maps have their norm's input and the branch's input too") {
  const ir::Module plain = models::trial_networks().at(2).module;
  const std::vector<Scaled> scaled = {
      {"norm_input", "", -1, {"norm.weight"}, 0, 3},
      {"input", "", 3, {"norm.weight", "norm.bias"}, 0, 3},
      {"hidden", "", 3, {"conv2.weight"}, 0, 3},
  };
  for (const Scaled& one : scaled) {
    CAPTURE(one.role);
    const auto values = fmt::format("role={},factor={}", one.role, one.factor);
    const ir::Module module = rewritten(plain, {load("reach", values)});
    ir::EvalState state = patterned_state(plain);
    check_same(logits(module, state), logits(plain, scaled_state(plain, one)));
  }
}

/// Blocks of maps x + W2 gelu(W1 LN(x)) behind a stem that ends in a norm. The norm is within the branch, as in
/// ConvNeXt, so that the join's input is the stream; or right before it, and the stream is taken to be maps.
ir::Module norm_within_branch() {
  return models::forward_module("within", [](models::Layers& net) {
    ir::Builder& b = net.builder();
    const ir::Value image = b.argument("image", {ir::DType::f32, {2, 2, 3, 5}});
    const auto rows = [&](ir::Value x) { return b.transpose(x, {0, 2, 3, 1}); };
    const auto maps = [&](ir::Value x) { return b.transpose(x, {0, 3, 1, 2}); };
    const auto conv = [&](const char* name, ir::Value x) { return net.linear(name, x, 4, {.role = "conv"}); };
    ir::Value x = maps(net.layer_norm("stem_norm", conv("stem", rows(image))));
    for (const char* name : {"blocks.0", "blocks.1"}) {
      const models::Layers::Block block(net, name);
      x = net.join(
          "conv", x, [](ir::Value z) { return z; },
          [&](ir::Value z) {
            const ir::Value hidden = net.layer_norm("norm", conv("conv1", rows(z)));
            return maps(conv("conv2", b.emit(ir::Opcode::gelu, {hidden})));
          },
          {.last = "conv2", .token_axis = 2, .channel_axis = 1});
    }
    b.result("logits", net.linear("head", b.reshape(b.mean(x, {2, 3}), {2, 4}), 5));
  });
}

/// Blocks x + W2 gelu(W1 RMS(x)), the norm written in ops, which read the stream twice.
ir::Module rms_norms(double epsilon) {
  return models::forward_module("rms", [&](models::Layers& net) {
    ir::Builder& b = net.builder();
    ir::Value x = net.linear("stem", b.argument("image", {ir::DType::f32, {2, 3, 5}}), 4);
    const auto norm = [&](ir::Value z) {
      const ir::Value mean = b.mean(b.mul(z, z), {2});
      return b.mul(z, b.emit(ir::Opcode::rsqrt, {b.add(mean, epsilon)}));
    };
    for (const char* name : {"blocks.0", "blocks.1"}) {
      const models::Layers::Block block(net, name);
      x = net.join("mlp", x, norm,
                   [&](ir::Value z) {
                     return net.linear("fc2", b.emit(ir::Opcode::gelu, {net.linear("fc1", z, 6)}), 4);
                   },
                   {.last = "fc2"});
    }
    b.result("logits", net.linear("head", b.reshape(b.mean(x, {1}), {2, 4}), 5));
  });
}

TEST_CASE("A norm that is written in ops has an input, read in several places") {
  constexpr double kEpsilon = 0.09, kFactor = 3;
  const ir::Module module = rewritten(rms_norms(kEpsilon), {load("reach", "role=norm_input,factor=3")});
  // An RMS norm of 3 x with epsilon e is that of x with e / 9.
  const ir::Module other = rms_norms(kEpsilon / (kFactor * kFactor));
  check_same(logits(module, patterned_state(module)), logits(other, patterned_state(other)));
  const ir::Module plain = rms_norms(kEpsilon);
  CHECK_FALSE(logits(plain, patterned_state(plain)) == logits(other, patterned_state(other)));
}

TEST_CASE("A branch that reads the stream itself has no norm's input, whatever the stream is computed by") {
  const ir::Module plain = norm_within_branch();
  for (const char* layers : {"0", "1"}) {
    CAPTURE(layers);
    CHECK(
        error_of(plain, {load("reach", fmt::format("role=norm_input,layers={}", layers))}) ==
        fmt::format("plugin 'reach': blocks.{}.conv has no 'norm_input'; leave it out by sites=, layers= or "
                    "stages=",
                    layers));
  }
  CHECK(ir::print(rewritten(plain, {load("reach", "role=norm_input,act=skip")})) == ir::print(plain));
  // What the branch reads is the stream; the shortcut keeps it.
  const ir::Module module = rewritten(plain, {load("reach", "role=input,factor=3")});
  check_same(logits(module, patterned_state(plain)),
             logits(plain, scaled_state(plain, {"input", "", 3, {"conv1.weight"}, 0, 3})));
}

TEST_CASE("A branch whose input was replaced still says which weights are its own") {
  const ir::Module module = rewritten(vit(), {load("reach", "role=input,act=cut")});
  runtime::BranchWeights weights(module, module.function("forward"));
  const ir::Function& forward = module.function("forward");
  const auto of_first = weights.of(ir::read_join(forward.body[ir::find_joins(forward).front()]));
  CHECK(of_first.size() == 6);
}

}  // namespace
}  // namespace rewire::test
