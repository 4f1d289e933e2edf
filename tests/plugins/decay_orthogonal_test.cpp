// decay beside orthogonal: one claims the shortcut, the other the branch, in any order.
#include <algorithm>
#include <string>

#include "ir/opcodes.h"
#include "ir/residual.h"
#include "tests/plugins/backends.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/residual_net.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT with decay and orthogonal computes as in PyTorch, in either order") {
  for (const char* model : {"slim", "odd"}) {
    for (const char* pair : {"_decay_orthogonal", "_orthogonal_attn_decay_mlp"}) {
      Golden golden = read_golden(std::string("vit_") + model + pair);
      for (int order = 0; order < 2; ++order) {
        CAPTURE(golden.name, order);
        check_gradients(golden, rewriting_evaluator(golden), kExact);
        check_gradients(golden, compiled(golden), kSingle);
        std::ranges::reverse(golden.plugins);
      }
    }
  }
}

TEST_CASE("The order of decay and orthogonal does not matter to a bit, nor to who owns a slot") {
  const std::string decay = "decay:alpha_min=0.5", orthogonal = "orthogonal:mode=global,eps=0.25";
  const ir::Module first = test::rewritten(test::residual_net({}), {decay, orthogonal});
  const ir::Module second = test::rewritten(test::residual_net({}), {orthogonal, decay});
  for (const ir::Module* module : {&first, &second}) {
    const ir::Function& forward = module->function("forward");
    for (const std::size_t at : ir::find_joins(forward)) {
      const ir::Join join = ir::read_join(forward.body[at]);
      CHECK(join.shortcut_owner == "decay");
      CHECK(join.branch_owner == "orthogonal");
      CHECK(join.shortcut != join.stream);
      CHECK(join.branch_slot != join.branch);
    }
  }
  const ir::Tensor x =
      test::sample(first.function("forward").type(first.function("forward").arguments[0].value));
  const auto run = [&](const ir::Module& module) {
    // Branches that start at zero have nothing for orthogonal to turn.
    ir::EvalState state =
        test::to_eval_state(test::started(first, {decay + ",zero_init=off", orthogonal}, 3));
    return ir::evaluate(module, module.function("forward"), {x}, state).at(0).data;
  };
  CHECK(run(first) == run(second));
  CHECK(run(first) != run(test::rewritten(test::residual_net({}), {decay})));
}

TEST_CASE("Twice on disjoint sites each strategy has its own values, and on one site it is refused") {
  const ir::Module module =
      test::rewritten(test::residual_net({}), {"orthogonal:sites=attn", "decay:sites=attn,alpha_min=0.5",
                                               "decay:sites=mlp,schedule=constant,alpha_min=0.25",
                                               "orthogonal:mode=global,sites=mlp"});
  const ir::Function& forward = module.function("forward");
  std::vector<ir::Shape> sums;  // of the inner products, in order
  for (const ir::Op& op : forward.body) {
    if (op.code == ir::Opcode::sum) sums.push_back(forward.type(op.results.front()).shape);
  }
  const ir::Shape token{2, 3, 1}, sample{2, 1, 1};
  CHECK(sums == std::vector<ir::Shape>{token, token, sample, sample, token, token, sample, sample});
  std::vector<double> factors;
  for (const ir::Op& op : forward.body) {
    if (op.code == ir::Opcode::constant && op.attributes.get_double("value") > 1e-3)
      factors.push_back(op.attributes.get_double("value"));
  }
  CHECK(factors == std::vector<double>{1, 0.25, 1 - 0.5 * 2 / 3, 0.25});  // joins 0 to 3 of 4
}

}  // namespace
}  // namespace rewire::parity
