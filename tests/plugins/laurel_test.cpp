// LAuReL's weights: which joins have them, how they start, and that a fresh network is the plain one.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/error.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/residual_net.h"

namespace rewire::test {
namespace {

/// The weights that the plugin adds at a join, by their last name.
std::map<std::string, ir::Parameter> added(const std::string& values, const std::string& join) {
  std::map<std::string, ir::Parameter> result;
  for (const ir::Parameter& parameter : rewritten(residual_net({.depth = 3}), {"laurel" + values}).parameters)
    if (parameter.name.starts_with(join + "."))
      result.emplace(parameter.name.substr(join.size() + 1), parameter);
  return result;
}

std::set<std::string> names(const std::string& values, const std::string& join) {
  std::set<std::string> result;
  for (const auto& [name, parameter] : added(values, join)) result.insert(name);
  return result;
}

TEST_CASE("A join has two numbers, two matrices, and a number for each stream that it reads") {
  using Names = std::set<std::string>;
  const auto weights = added("", "blocks.1.join_attn");
  CHECK(weights.size() == 4);
  CHECK(weights.at("left").type.shape == ir::Shape{4, 16});
  CHECK(weights.at("right").type.shape == ir::Shape{16, 4});
  CHECK(weights.at("right").init == ir::Init{ir::InitKind::zeros});
  for (const char* matrix : {"left", "right"}) CHECK(weights.at(matrix).decay);
  for (const char* number : {"alpha", "beta"}) CHECK_FALSE(weights.at(number).decay);
  CHECK(names(":rank=0", "blocks.0.join_mlp") == Names{"alpha", "beta"});
  CHECK(names(":weights=none", "blocks.0.join_mlp") == Names{"left", "right"});
  // The first joins have fewer streams before them; joins that do not follow each other begin anew.
  CHECK(names(":weights=none,previous=3", "blocks.0.join_attn") == Names{"left", "right", "gamma_0"});
  CHECK(names(":weights=none,previous=3", "blocks.2.join_attn") ==
        Names{"left", "right", "gamma_0", "gamma_1", "gamma_2"});
  CHECK(names(":weights=none,previous=3,sites=mlp", "blocks.2.join_mlp") ==
        Names{"left", "right", "gamma_0"});
}

TEST_CASE("It starts as the plain network, to the last bit of double precision") {
  const ir::Module plain = residual_net({.depth = 3});
  const std::string spec =
      GENERATE(as<std::string>{}, "laurel", "laurel:weights=softmax,previous=4", "laurel:weights=none");
  const ir::Module module = rewritten(plain, {spec});
  const auto output = [](const ir::Module& of, const std::vector<std::string>& specs) {
    const ir::Function& forward = of.function("forward");
    ir::EvalState state = to_eval_state(started(of, specs, 7));
    const ir::Tensor x = sample(forward.type(forward.arguments.at(0).value));
    return ir::evaluate(of, forward, {x}, state).at(0).data;
  };
  CHECK(output(module, {spec}) == output(plain, {}));
}

TEST_CASE("Options that leave nothing are refused") {
  const auto message = [](const std::string& values) {
    return message_of<UserError>([&] { rewritten(residual_net({}), {"laurel" + values}); });
  };
  CHECK(message(":rank=0,weights=none") == "plugin 'laurel': rank=0 and weights=none leave nothing to add");
  CHECK(message(":rank=0,previous=2") == "plugin 'laurel': previous needs the low-rank part: give a rank");
}

}  // namespace
}  // namespace rewire::test
