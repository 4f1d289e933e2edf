// augment beside decay: one adds paths, the other claims the shortcut, in any order.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/residual_net.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT with decay and augment computes as in PyTorch") {
  for (const char* model : {"slim", "odd"}) {
    const Golden golden = read_golden(std::string("vit_") + model + "_decay_augment");
    CAPTURE(golden.name);
    check_gradients(golden, rewriting_evaluator(golden), kExact);
  }
}

TEST_CASE("The order of decay and augment does not matter to what the network computes") {
  const std::string decay = "decay:alpha_min=0.5", augment = "augment:blocks=2";
  const ir::Module first = test::rewritten(test::residual_net({}), {decay, augment});
  const ir::Module second = test::rewritten(test::residual_net({}), {augment, decay});
  const ir::Tensor x =
      test::sample(first.function("forward").type(first.function("forward").arguments[0].value));
  const auto run = [&](const ir::Module& module) {
    ir::EvalState state = test::to_eval_state(test::started(first, {decay, augment}, 3));
    return ir::evaluate(module, module.function("forward"), {x}, state).at(0).data;
  };
  CHECK(run(first) == run(second));
}

}  // namespace
}  // namespace rewire::parity
