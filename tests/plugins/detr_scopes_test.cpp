// A detection transformer with a strategy in one scope: only that scope's joins change, and compiled code agrees with
// the evaluator, forward and backward.
#include <string>

#include "ir/residual.h"
#include "programs/programs.h"
#include "runtime/plugin/plugin.h"
#include "runtime/verify/engine_check.h"
#include "tests/parity/mean_squares.h"
#include "tests/parity/parity.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

void check_scope(const std::string& golden, const std::string& scope, const std::string& strategy) {
  CAPTURE(golden, scope, strategy);
  mean_squares();  // the golden's objective
  ir::Module module = models::build(read_golden(golden).model, 2);
  const auto spec = runtime::parse_plugin_spec(strategy + "scope=" + scope);
  runtime::apply_plugins(module, {runtime::load_plugin(spec, {})}, 0);
  std::size_t changed = 0;
  for (const std::size_t at : ir::find_joins(module.function("forward"))) {
    const ir::Join join = ir::read_join(module.function("forward").body[at]);
    const bool changes = !join.paths.empty() || !join.branch_owner.empty();
    CAPTURE(join.describe());
    CHECK(changes == (join.scope == scope));
    changed += changes ? 1 : 0;
  }
  CHECK(changed >= 2);
  programs::TrainOptions training;
  training.objective = mean_squares();
  programs::add_grad_program(module, training);
  const auto compiled = runtime::make_jit_engine(module);
  const auto evaluator = runtime::make_evaluator_engine(module);
  for (const runtime::EngineCheckRow& row :
       runtime::check_engine(*compiled, *evaluator, module, {}, 5).rows) {
    INFO(row.what << ", worst " << row.worst << ", error " << row.error);
    CHECK(row.passed());
  }
}

TEST_CASE("A strategy changes the joins of one scope of a detection transformer") {
  for (const char* scope : {"backbone", "encoder", "decoder"}) {
    for (const char* golden : {"detr_deit", "detr_pvt", "detr_resnet"})
      check_scope(golden, scope, "orthogonal:");
    check_scope("detr_deit", scope,
                std::string(scope) == "backbone" ? "augment:blocks=3," : "augment:blocks=4,");
  }
}

}  // namespace
}  // namespace rewire::parity
