// Decayed identity shortcuts: the factor of every join by every schedule, what starts at zero, what is
// trained, and that alpha = 1 is the plain model.
#include <algorithm>
#include <map>
#include <numbers>

#include "ir/error.h"
#include "ir/residual.h"
#include "models/model.h"
#include "runtime/exec/engine.h"
#include "tests/plugins/compiled.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/residual_net.h"

namespace rewire::test {
namespace {

constexpr double kRootHalf = 1 / std::numbers::sqrt2;

/// What one join makes of the stream when every branch is zero.
double factor_of(const ir::Module& module, ir::EvalState state) {
  for (auto& [name, tensor] : state.tensors) {
    if (name.find("join_") == std::string::npos) std::fill(tensor.data.begin(), tensor.data.end(), 0.0);
  }
  const ir::Function& forward = module.function("forward");
  const ir::Tensor x = sample(forward.type(forward.arguments.at(0).value));
  const ir::Tensor y = ir::evaluate(module, forward, {x}, state).at(0);
  const double factor = y.data[1] / x.data[1];
  for (std::size_t i = 0; i < x.data.size(); ++i)
    CHECK(y.data[i] == Approx(factor * x.data[i]).margin(1e-14));
  return factor;
}

/// The factors of all joins of a net of three encoder blocks, one at a time: the rest are left alone.
std::vector<double> factors(const std::string& values) {
  std::vector<double> result;
  for (const char* layer : {"0", "1", "2"}) {
    for (const char* site : {"attn", "mlp"}) {
      const std::string spec = "decay:" + values + ",sites=" + site + ",layers=" + layer;
      const ir::Module module = rewritten(residual_net({.depth = 3, .decoder_depth = 2}), {spec});
      result.push_back(factor_of(module, to_eval_state(started(module, {spec}))));
    }
  }
  return result;
}

void check_factors(const std::string& values, const std::vector<double>& want) {
  CAPTURE(values);
  const std::vector<double> got = factors(values);
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) CHECK(got[i] == Approx(want[i]).epsilon(1e-12));
}

TEST_CASE("The shortcut's factor follows the schedule over all joins, whichever of them are chosen") {
  // L = 6 joins, D = 3 blocks.
  check_factors("alpha_min=0.5", {1, 0.9, 0.8, 0.7, 0.6, 0.5});
  check_factors("schedule=endpoint", {1, 0.92, 0.84, 0.76, 0.68, 0.6});  // alpha_min = 0.6
  check_factors("alpha_min=0.4,schedule=paper_literal", {1, 0.9, 0.8, 0.7, 0.6, 0.5});
  check_factors("alpha_min=0.5,schedule=per_block", {1, 1, 0.75, 0.75, 0.5, 0.5});
  check_factors("alpha_min=0.8,schedule=constant", {0.8, 0.8, 0.8, 0.8, 0.8, 0.8});
  check_factors("learnable=true", {1, 1, 1, 1, 1, 1});
  check_factors("variant=both", std::vector<double>(6, kRootHalf));
  check_factors("variant=branch", std::vector<double>(6, 1));
}

TEST_CASE("Where there is one join or one block, a spread factor is 1 and constant is alpha_min") {
  const auto alone = [](const std::string& values) {
    const ir::TensorType type{ir::DType::f32, {2, 3, 5}};
    const ir::Module module = rewritten(single_join(type), {"decay:alpha_min=0.5," + values});
    const ir::Tensor x = sample(type), zeros(type);
    ir::EvalState state;
    return ir::evaluate(module, module.function("forward"), {x, zeros}, state).at(0).data[1] / x.data[1];
  };
  CHECK(alone("schedule=endpoint") == 1);
  CHECK(alone("schedule=paper_literal") == 1);
  CHECK(alone("schedule=per_block") == 1);
  CHECK(alone("schedule=constant") == 0.5);
}

TEST_CASE("The decoder has its own first and last join") {
  const std::string spec = "decay:alpha_min=0.5,scope=decoder,layers=2";
  const ir::Module module = rewritten(residual_net({.depth = 2, .decoder_depth = 3}), {spec});
  CHECK(factor_of(module, to_eval_state(started(module, {spec}))) == Approx(0.5).epsilon(1e-12));
}

TEST_CASE("The variants scale shortcut, branch or both, and claim just these") {
  struct Case {
    const char* variant;
    double of_x, of_f;
    const char *shortcut_owner, *branch_owner;
  };
  for (const Case& c :
       {Case{"shortcut", 0.3, 1, "decay", ""}, Case{"both", kRootHalf, kRootHalf, "decay", "decay"},
        Case{"branch", 1, kRootHalf, "", "decay"}}) {
    for (const JoinAxes axes : {JoinAxes{}, JoinAxes{.batch = 0, .token = 2, .channel = 1}}) {
      CAPTURE(c.variant, axes.channel);
      const ir::TensorType type{ir::DType::f32, {2, 3, 5, 1}};
      const ir::Module module =
          rewritten(single_join(type, axes),
                    {std::string("decay:alpha_min=0.3,schedule=constant,variant=") + c.variant});
      const ir::Function& forward = module.function("forward");
      const ir::Join join = ir::read_join(forward.body.back());
      CHECK(join.shortcut_owner == c.shortcut_owner);
      CHECK(join.branch_owner == c.branch_owner);
      const ir::Tensor x = sample(type, 0.3), f = sample(type, 1.1);
      ir::EvalState state;
      const ir::Tensor y = ir::evaluate(module, forward, {x, f}, state).at(0);
      for (std::size_t i = 0; i < y.data.size(); ++i) {
        CHECK(y.data[i] == Approx(c.of_x * x.data[i] + c.of_f * f.data[i]).epsilon(0).margin(1e-14));
      }
    }
  }
}

/// The names of the weights that are all zeros.
std::vector<std::string> zeros_of(const runtime::TensorMap& state) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) {
    const std::vector<double> values = runtime::to_double(tensor).data;
    if (std::ranges::all_of(values, [](double v) { return v == 0; })) names.push_back(name);
  }
  return names;
}

TEST_CASE("A strong decay starts each branch's last layer at zero, and zero_init says otherwise") {
  using Names = std::vector<std::string>;
  const Names none, all = {"blocks.0.attn.proj.bias", "blocks.0.attn.proj.weight", "blocks.0.mlp.fc2.bias",
                           "blocks.0.mlp.fc2.weight"};
  const std::map<std::string, Names> cases = {
      {"", all},
      {":alpha_min=0.7", all},
      {":alpha_min=0.71", none},
      {":alpha_min=1", none},
      {":alpha_min=1,zero_init=on", all},
      {":alpha_min=0.2,zero_init=off", none},
      {":learnable=true", none},
      {":learnable=true,zero_init=on", all},
      {":variant=both", none},
      {":variant=branch,zero_init=on", all},
      {":sites=mlp", {"blocks.0.mlp.fc2.bias", "blocks.0.mlp.fc2.weight"}},
  };
  for (const auto& [values, want] : cases) {
    CAPTURE(values);
    const ir::Module module = rewritten(residual_net({.depth = 1}), {"decay" + values});
    CHECK(zeros_of(started(module, {"decay" + values}, 3)) == want);
  }
}

TEST_CASE("Where a branch has no last layer zero_init=on is refused, and auto leaves its weights alone") {
  ir::Module module = residual_net({.depth = 1});
  for (const std::size_t at : ir::find_joins(module.function("forward"))) {
    ir::Op& op = module.function("forward").body[at];
    if (ir::read_join(op).site == "attn") op.attributes.set("last_weight", std::string());
  }
  CHECK(message_of<UserError>([&] { rewritten(module, {"decay:zero_init=on"}); }) ==
        "plugin 'decay': blocks.0.attn has no last layer that zero_init=on could set to zero: use "
        "zero_init=auto or off, or choose other joins by sites= or layers=");
  CHECK_NOTHROW(rewritten(module, {"decay:zero_init=on,sites=mlp"}));
  CHECK(zeros_of(started(rewritten(module, {"decay"}), {"decay"}, 3)) ==
        std::vector<std::string>{"blocks.0.mlp.fc2.bias", "blocks.0.mlp.fc2.weight"});
}

TEST_CASE("With branches that start at zero the network starts as the product of its factors") {
  const ir::Module module = rewritten(residual_net({.depth = 3}), {"decay:alpha_min=0.5"});
  ir::EvalState state = to_eval_state(started(module, {"decay:alpha_min=0.5"}, 3));
  const ir::Function& forward = module.function("forward");
  const ir::Tensor x = sample(forward.type(forward.arguments.at(0).value));
  const ir::Tensor y = ir::evaluate(module, forward, {x}, state).at(0);
  const double product = 1 * 0.9 * 0.8 * 0.7 * 0.6 * 0.5;
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    CHECK(y.data[i] == Approx(product * x.data[i]).epsilon(1e-12));
  }
}

TEST_CASE("At the start each join of a compiled ViT gives its factor times what it is given") {
  ir::Selection options{"vit"};
  options.set("dim", 20).set("depth", 3).set("heads", 2).set("patch", 14);
  const std::map<std::string, std::vector<double>> cases = {
      {"decay", {1, 0.92, 0.84, 0.76, 0.68, 0.6}},
      {"decay:alpha_min=0.5,schedule=per_block", {1, 1, 0.75, 0.75, 0.5, 0.5}},
      {"decay:alpha_min=0.9,schedule=constant,zero_init=on", std::vector<double>(6, 0.9)},
  };
  for (const auto& [spec, want] : cases) {
    ir::Module module = rewritten(models::build(options, 3), {spec}, 3);
    ir::Function& forward = module.function("forward");
    std::vector<ir::Value> streams;  // what the first join is given, then what each gives
    for (const std::size_t at : ir::find_joins(forward)) {
      if (streams.empty()) streams.push_back(ir::read_join(forward.body[at]).stream);
      CHECK(ir::read_join(forward.body[at]).stream == streams.back());
      streams.push_back(forward.body[at].results.front());
    }
    REQUIRE(streams.size() == want.size() + 1);
    for (std::size_t i = 0; i < streams.size(); ++i)
      forward.results.push_back({"stream" + std::to_string(i), streams[i]});
    const auto engine = runtime::make_jit_engine(module);
    for (const auto& [name, tensor] : started(module, {spec}, 3)) engine->write_state(name, tensor);
    runtime::TensorMap inputs;
    inputs.emplace("image", runtime::to_host(sample({ir::DType::f32, {3, 1, 28, 28}})));
    const runtime::TensorMap results = engine->run("forward", inputs);
    for (std::size_t join = 0; join < want.size(); ++join) {
      CAPTURE(spec, join);
      const std::vector<double> x = runtime::to_double(results.at("stream" + std::to_string(join))).data,
                                y = runtime::to_double(results.at("stream" + std::to_string(join + 1))).data;
      CHECK(*std::ranges::max_element(x) > 0.01);
      for (std::size_t i = 0; i < x.size(); ++i)
        CHECK(y[i] == Approx(want[join] * x[i]).epsilon(1e-6).margin(1e-30));
    }
  }
}

TEST_CASE("A trained alpha is one number a join that starts at 1 and decays if it is told to") {
  for (const bool decays : {true, false}) {
    const ir::Module module = rewritten(
        residual_net({}), {std::string("decay:learnable=true") + (decays ? "" : ",decay_alpha=false")});
    for (const char* name : {"blocks.0.join_attn.alpha", "blocks.0.join_mlp.alpha",
                             "blocks.1.join_attn.alpha", "blocks.1.join_mlp.alpha"}) {
      CAPTURE(name, decays);
      const ir::Parameter* alpha = module.find_parameter(name);
      REQUIRE(alpha != nullptr);
      CHECK(alpha->type == ir::TensorType{ir::DType::f32, {1}});
      CHECK(alpha->init == ir::Init{ir::InitKind::ones, 0, 0});
      CHECK(alpha->trainable);
      CHECK(alpha->decay == decays);
    }
  }
  // Encoder and decoder have one each where both have a block of the number.
  const ir::Module both =
      rewritten(residual_net({.depth = 1, .decoder_depth = 1}), {"decay:learnable=true,scope=all"});
  for (const char* name :
       {"blocks.0.join_attn.alpha", "blocks.0.join_mlp.alpha", "decoder_blocks.0.join_mlp.alpha"}) {
    CAPTURE(name);
    CHECK(both.find_parameter(name) != nullptr);
  }
  // Of f32 for narrow streams.
  const ir::Module narrow = rewritten(single_join({ir::DType::bf16, {2, 3, 5}}), {"decay:learnable=true"});
  CHECK(narrow.find_parameter("blocks.0.join_mlp.alpha")->type.dtype == ir::DType::f32);
}

TEST_CASE("alpha_min = 1 is the plain model bit for bit, weights and gradients") {
  const runtime::TensorMap plain = compiled_gradients({});
  for (const char* values : {"", ",schedule=paper_literal", ",schedule=per_block", ",schedule=constant"}) {
    CAPTURE(values);
    CHECK(differing(compiled_gradients({std::string("decay:alpha_min=1") + values}), plain).empty());
  }
  CHECK_FALSE(differing(compiled_gradients({"decay:alpha_min=0.99"}), plain).empty());
}

TEST_CASE("Its parameters refuse what they cannot mean") {
  const auto refused = [](const std::string& spec) {
    return message_of<UserError>([&] { rewritten(residual_net({}), {spec}); });
  };
  CHECK(refused("decay:learnable=true,variant=both") ==
        "plugin 'decay': learnable needs variant=shortcut: the factors of variant=both are fixed");
  CHECK(refused("decay:alpha_min=1.1") ==
        "plugin 'decay': alpha_min=1.1 is out of range: it takes a float 0 to 1");
  CHECK(refused("decay:schedule=perblock") ==
        "plugin 'decay': schedule=perblock is unknown: it takes one of "
        "endpoint|paper_literal|per_block|constant (did you mean 'per_block'?)");
}

}  // namespace
}  // namespace rewire::test
