// Value residuals: whose values are read, by which attention, and what is trained.
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ir/error.h"
#include "models/model.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/residual_net.h"

namespace rewire::test {
namespace {

ir::Module vit(std::int64_t depth) {
  ir::Selection options{"vit"};
  options.set("dim", 12).set("depth", depth).set("heads", 3).set("patch", 14).set("classes", 4);
  return models::build(options, 2);
}

/// The logits of a network with these strategies, from weights that depend on their names alone.
std::vector<double> logits(const ir::Module& plain, const std::vector<std::string>& specs,
                           const std::function<void(const std::string&, ir::Tensor&)>& change = {}) {
  const ir::Module module = rewritten(plain, specs);
  ir::EvalState state = to_eval_state(started(module, specs, 5));
  for (auto& [name, tensor] : state.tensors) {
    if (change) change(name, tensor);
  }
  const ir::Function& forward = module.function("forward");
  return ir::evaluate(module, forward, {sample(forward.type(forward.arguments.at(0).value))}, state)
      .at(0)
      .data;
}

TEST_CASE("With first=0 and own=1 it is the plain network, with first=1 and own=0 the shared one") {
  const ir::Module plain = vit(3);
  CHECK(logits(plain, {"value_residual:first=0,own=1"}) == logits(plain, {}));
  CHECK(logits(plain, {"value_residual:first=1,own=0"}) == logits(plain, {"value_residual:kind=shared"}));
  CHECK_FALSE(logits(plain, {"value_residual"}) == logits(plain, {}));
}

TEST_CASE("Shared, only the first attention's own values are read") {
  const ir::Module plain = vit(3);
  for (const char* block : {"0", "1", "2"}) {
    CAPTURE(block);
    // The last third of the rows makes the values.
    const auto change = [&](const std::string& name, ir::Tensor& tensor) {
      if (name != std::string("blocks.") + block + ".attn.qkv.weight") return;
      for (std::size_t i = 2 * tensor.data.size() / 3; i < tensor.data.size(); ++i) tensor.data[i] += 1;
    };
    const std::vector<std::string> shared = {"value_residual:kind=shared"};
    CHECK((logits(plain, shared, change) == logits(plain, shared)) == (block != std::string("0")));
  }
}

TEST_CASE("The first attention that the filters let through gives the values, and the others read them") {
  const auto added = [](const std::string& values) {
    std::set<std::string> names;
    const ir::Module module = rewritten(vit(4), {"value_residual:kind=learnable" + values});
    for (const ir::Parameter& parameter : module.parameters) {
      if (parameter.name.find(".join_") == std::string::npos) continue;
      CHECK(parameter.type.shape == ir::Shape{1});
      CHECK(parameter.trainable);
      CHECK_FALSE(parameter.decay);
      CHECK(parameter.init ==
            ir::Init{ir::InitKind::constant, parameter.name.ends_with("first") ? 0.5 : 0.25, 0});
      names.insert(parameter.name);
    }
    return names;
  };
  using Names = std::set<std::string>;
  CHECK(added(",own=0.25") == Names{"blocks.1.join_attn.first", "blocks.1.join_attn.own",
                                    "blocks.2.join_attn.first", "blocks.2.join_attn.own",
                                    "blocks.3.join_attn.first", "blocks.3.join_attn.own"});
  CHECK(added(",own=0.25,layers=0+3") == Names{"blocks.3.join_attn.first", "blocks.3.join_attn.own"});
  CHECK(added(",own=0.25,layers=1+2") == Names{"blocks.2.join_attn.first", "blocks.2.join_attn.own"});
}

TEST_CASE("Where nobody could read another's values it is refused") {
  const std::string message =
      "plugin 'value_residual': it needs two blocks with attention: the first gives the values, the others "
      "read them";
  CHECK(message_of<UserError>([&] { rewritten(vit(1), {"value_residual"}); }) == message);
  CHECK(message_of<UserError>([&] { rewritten(vit(3), {"value_residual:sites=mlp"}); }) == message);
  CHECK(message_of<UserError>([&] { rewritten(residual_net({}), {"value_residual"}); }) == message);
}

}  // namespace
}  // namespace rewire::test
