// DenseFormer's averages: which blocks each reads, where the weights start, and what the sums are.
#include <algorithm>
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

/// The names of the weights behind "alpha_" of each block, with the join that they stand at.
std::map<std::string, std::set<std::string>> sources(const std::string& values, const ResidualNet& net) {
  std::map<std::string, std::set<std::string>> result;
  const ir::Module module = rewritten(residual_net(net), {"denseformer" + values});
  for (const ir::Parameter& parameter : module.parameters) {
    const std::size_t at = parameter.name.find(".alpha_");
    if (at == std::string::npos) continue;
    CHECK(parameter.trainable);
    CHECK_FALSE(parameter.decay);
    CHECK(parameter.type.shape == ir::Shape{1});
    result[parameter.name.substr(0, at)].insert(parameter.name.substr(at + 7));
  }
  return result;
}

TEST_CASE("The average of block i reads i, i - k, i - 2k and so on, behind every p-th block") {
  using Sources = std::map<std::string, std::set<std::string>>;
  const ResidualNet net{.depth = 4};
  CHECK(sources("", net) == Sources{{"blocks.0.join_mlp", {"0", "1"}},
                                    {"blocks.1.join_mlp", {"0", "1", "2"}},
                                    {"blocks.2.join_mlp", {"0", "1", "2", "3"}},
                                    {"blocks.3.join_mlp", {"0", "1", "2", "3", "4"}}});
  CHECK(sources(":dilation=2", net) == Sources{{"blocks.0.join_mlp", {"1"}},
                                               {"blocks.1.join_mlp", {"0", "2"}},
                                               {"blocks.2.join_mlp", {"1", "3"}},
                                               {"blocks.3.join_mlp", {"0", "2", "4"}}});
  CHECK(sources(":period=3", net) == Sources{{"blocks.2.join_mlp", {"0", "1", "2", "3"}}});
  CHECK(sources(":dilation=4,period=2", net) ==
        Sources{{"blocks.1.join_mlp", {"2"}}, {"blocks.3.join_mlp", {"0", "4"}}});
  // A block ends where its last chosen join is; blocks are counted among those chosen.
  CHECK(sources(":sites=attn,layers=1+3", net) ==
        Sources{{"blocks.1.join_attn", {"0", "1"}}, {"blocks.3.join_attn", {"0", "1", "2"}}});
}

TEST_CASE("A dynamic average has a layer of as many numbers as it has sources") {
  const ir::Module module =
      rewritten(residual_net({.depth = 4}), {"denseformer:dynamic=true,dilation=2,period=2"});
  const auto shape = [&](const std::string& name) { return module.find_parameter(name)->type.shape; };
  CHECK(shape("blocks.1.join_mlp.w1") == ir::Shape{4, 2});
  CHECK(shape("blocks.3.join_mlp.w1") == ir::Shape{4, 3});
  CHECK(shape("blocks.3.join_mlp.w2") == ir::Shape{3, 3});
  CHECK(module.find_parameter("blocks.3.join_mlp.w2")->init == ir::Init{ir::InitKind::zeros});
  CHECK(module.find_parameter("blocks.2.join_mlp.w1") == nullptr);
}

TEST_CASE("The decoder begins anew with what it is given") {
  CHECK(sources(":scope=all", {.depth = 1, .decoder_depth = 2}) ==
        std::map<std::string, std::set<std::string>>{{"blocks.0.join_mlp", {"0", "1"}},
                                                     {"decoder_blocks.0.join_mlp", {"0", "1"}},
                                                     {"decoder_blocks.1.join_mlp", {"0", "1", "2"}}});
}

ir::Tensor output(const ir::Module& module, ir::EvalState state) {
  const ir::Function& forward = module.function("forward");
  return ir::evaluate(module, forward, {sample(forward.type(forward.arguments.at(0).value))}, state).at(0);
}

TEST_CASE("It starts as the plain network, to the last bit of double precision") {
  const ir::Module plain = residual_net({.depth = 3});
  const std::string spec = GENERATE(as<std::string>{}, "denseformer", "denseformer:dilation=2,period=2",
                                    "denseformer:dynamic=true");
  const ir::Module module = rewritten(plain, {spec});
  CHECK(output(module, to_eval_state(started(module, {spec}, 7))).data ==
        output(plain, to_eval_state(started(plain, {}, 7))).data);
}

TEST_CASE("Behind a block stands the weighted sum of what the blocks gave before their own averages") {
  const ir::Module module = rewritten(residual_net({.depth = 3}), {"denseformer"});
  // Branches that add a constant c to every element: X_j is a multiple of the input plus a constant.
  ir::EvalState state = to_eval_state(started(module, {"denseformer"}));
  for (auto& [name, tensor] : state.tensors) {
    if (name.find("alpha_") == std::string::npos)
      std::ranges::fill(tensor.data, name.ends_with("fc2.bias") ? 1.0 : 0.0);
  }
  const double a[4][4] = {{}, {0.5, -2}, {0.25, 3, 0.7}, {-1, 0.3, 2, 1.5}};
  for (int i = 1; i <= 3; ++i) {
    for (int j = 0; j <= i; ++j) {
      state.tensors.at("blocks." + std::to_string(i - 1) + ".join_mlp.alpha_" + std::to_string(j)).data[0] =
          a[i][j];
    }
  }
  // Of a stream s x + t: the two numbers of X_j, and of the stream behind each average.
  std::vector<std::pair<double, double>> given = {{1, 0}};
  std::pair<double, double> stream = given[0];
  for (int i = 1; i <= 3; ++i) {
    given.emplace_back(stream.first, stream.second + 1);
    stream = {0, 0};
    for (std::size_t j = 0; j < given.size(); ++j) {
      stream.first += a[i][j] * given[j].first;
      stream.second += a[i][j] * given[j].second;
    }
  }
  const ir::Function& forward = module.function("forward");
  const ir::Tensor x = sample(forward.type(forward.arguments.at(0).value)), y = output(module, state);
  for (std::size_t i = 0; i < x.data.size(); ++i)
    CHECK(y.data[i] == Approx(stream.first * x.data[i] + stream.second).margin(1e-13));
}

TEST_CASE("A period that no block reaches is refused") {
  CHECK(message_of<UserError>([&] { rewritten(residual_net({.depth = 2}), {"denseformer:period=3"}); }) ==
        "plugin 'denseformer': period=3 is more than the number of blocks that it counts: use a smaller one");
}

}  // namespace
}  // namespace rewire::test
