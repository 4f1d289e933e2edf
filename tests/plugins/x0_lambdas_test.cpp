// The embedding in every block's input: which blocks have factors, how they start and train, what is refused.
#include <map>
#include <set>
#include <string>

#include "ir/error.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/residual_net.h"

namespace rewire::test {
namespace {

/// The initial value of each weight that the plugin adds.
std::map<std::string, double> starts(const std::string& values, const ResidualNet& net) {
  const ir::Module module = rewritten(residual_net(net), {"x0_lambdas" + values});
  std::map<std::string, double> result;
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.name.find(".join_") == std::string::npos) continue;
    CHECK(parameter.type.shape == ir::Shape{1});
    CHECK(parameter.trainable);
    result[parameter.name] = parameter.init.kind == ir::InitKind::constant ? parameter.init.a : -1;
  }
  return result;
}

std::set<std::string> names(const std::string& values, const ResidualNet& net) {
  std::set<std::string> result;
  for (const auto& [name, start] : starts(values, net)) result.insert(name);
  return result;
}

TEST_CASE("The factors fall from the first block to the last, as nanochat's do") {
  const std::map<std::string, double> got = starts(":backout=true", {.depth = 3});
  const std::map<std::string, double> want = {
      {"blocks.0.join_attn.resid_lambda", 1.15}, {"blocks.0.join_attn.x0_lambda", 0.2},
      {"blocks.1.join_attn.resid_lambda", 1.10}, {"blocks.1.join_attn.x0_lambda", 0.125},
      {"blocks.2.join_attn.resid_lambda", 1.05}, {"blocks.2.join_attn.x0_lambda", 0.05},
      {"blocks.2.join_mlp.backout_lambda", 0.2}};
  REQUIRE(got.size() == want.size());
  for (const auto& [name, value] : want) CHECK(got.at(name) == Approx(value));
}

TEST_CASE("Blocks that follow each other have factors, and the first only if it reads the embedding") {
  using Names = std::set<std::string>;
  const Names second = {"blocks.1.join_attn.resid_lambda", "blocks.1.join_attn.x0_lambda"};
  const Names third = {"blocks.2.join_attn.resid_lambda", "blocks.2.join_attn.x0_lambda"};
  CHECK(names(":layers=1-2", {.depth = 3}) == third);
  CHECK(names(":layers=0", {.depth = 3}) ==
        Names{"blocks.0.join_attn.resid_lambda", "blocks.0.join_attn.x0_lambda"});
}

TEST_CASE("Each kind of factor has its own rate, betas and decay") {
  const ir::Module module =
      rewritten(residual_net({.depth = 2}), {"x0_lambdas:backout=true,resid_lr=0.5,x0_lr=3,backout_lr=7"});
  const auto hint = [&](const std::string& name) { return module.find_parameter(name)->hint; };
  CHECK(hint("blocks.1.join_attn.resid_lambda").lr_scale == 0.5);
  CHECK(hint("blocks.1.join_attn.resid_lambda").weight_decay == 0.05);
  CHECK(hint("blocks.1.join_attn.x0_lambda").lr_scale == 3);
  CHECK(hint("blocks.1.join_attn.x0_lambda").beta1 == 0.96);
  CHECK(hint("blocks.1.join_mlp.backout_lambda").lr_scale == 7);
}

TEST_CASE("With start=plain it starts as the plain network, to the last bit of double precision") {
  const ir::Module plain = residual_net({.depth = 3});
  const std::string spec = "x0_lambdas:start=plain,backout=true";
  const ir::Module module = rewritten(plain, {spec});
  const auto output = [](const ir::Module& of, const std::vector<std::string>& specs) {
    const ir::Function& forward = of.function("forward");
    ir::EvalState state = to_eval_state(started(of, specs, 7));
    const ir::Tensor x = sample(forward.type(forward.arguments.at(0).value));
    return ir::evaluate(of, forward, {x}, state).at(0).data;
  };
  CHECK(output(module, {spec}) == output(plain, {}));
}

TEST_CASE("It is refused where it would change nothing, and backout without the middle block") {
  CHECK(message_of<UserError>([&] { rewritten(residual_net({.depth = 2}), {"x0_lambdas:layers=1"}); }) ==
        "plugin 'x0_lambdas': it needs the first block, or blocks that follow each other, with all their "
        "joins");
  CHECK(
      message_of<UserError>(
          [&] { rewritten(residual_net({.depth = 4}), {"x0_lambdas:layers=3,backout=true"}); }) ==
      "plugin 'x0_lambdas': backout: blocks.3.mlp ends another chain of blocks than the middle block is in");
}

}  // namespace
}  // namespace rewire::test
