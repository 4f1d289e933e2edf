// Does the check of an engine find what is wrong? One error at a time is planted in the gradient program of
// the trial networks, and the wrong program is computed in f32, rounding included.
//
// - In a gradient: one part in a thousand of a whole weight tensor's. Every one must be found.
// - In an op: its result times 1.1, or with the sign of one operand changed. Such an error is one that shows
//   where it moves an output, the loss or a gradient by one part in a thousand; all others are equivalent
//   programs (what a softmax subtracts) or small parts of a sum.
#include <algorithm>
#include <cstdio>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "models/trial.h"
#include "programs/programs.h"
#include "runtime/verify/engine_check.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

constexpr std::uint64_t kSeed = 3;
constexpr double kPlanted = 1e-3;

/// As the engine would be that compiled `wrong` for `module`.
EngineCheck check(const ir::Module& wrong, const ir::Module& module, Rounding rounding) {
  const auto engine = make_evaluator_engine(wrong, rounding);
  const auto evaluator = make_evaluator_engine(module);
  return check_engine(*engine, *evaluator, module, {}, kSeed);
}

/// The value times `factor` takes its place in all that stands behind body index `at`, and among the results.
void scale(ir::Module& module, ir::Function& function, std::size_t at, ir::Value value, double factor) {
  ir::Builder b(module, function);
  b.set_position(at);
  const ir::Value scaled = b.mul(value, factor);
  for (std::size_t i = b.position(); i < function.body.size(); ++i)
    std::ranges::replace(function.body[i].operands, value, scaled);
  for (ir::Argument& result : function.results) {
    if (result.value == value) result.value = scaled;
  }
}

TEST_CASE("An error of one part in a thousand in the gradient of any weight is found") {
  int planted = 0;
  for (models::TrialNetwork& network : models::trial_networks()) {
    ir::Module module = std::move(network.module);
    programs::add_grad_program(module, {});
    for (const ir::Parameter& parameter : module.parameters) {
      if (!parameter.trainable) continue;
      CAPTURE(network.name, parameter.name);
      ir::Module wrong = module;
      ir::Function& grad = wrong.function("grad");
      const auto result = std::ranges::find(grad.results, parameter.name, &ir::Argument::name);
      REQUIRE(result != grad.results.end());
      ir::Builder b(wrong, grad);
      result->value = b.mul(result->value, 1 + kPlanted);
      ++planted;
      const EngineCheck found = check(wrong, module, Rounding::dtypes);
      const auto row = std::ranges::find_if_not(found.rows, &EngineCheckRow::passed);
      REQUIRE(row != found.rows.end());
      CHECK(row->worst == parameter.name);
    }
  }
  std::printf("%d errors planted in gradients, all found\n", planted);
  CHECK(planted >= 80);
}

TEST_CASE("An error in any op of the gradient program is found where it shows") {
  int planted = 0, found = 0;
  for (models::TrialNetwork& network : models::trial_networks()) {
    ir::Module module = std::move(network.module);
    programs::add_grad_program(module, {});
    const std::size_t ops = module.function("grad").body.size();
    for (std::size_t at = 0; at < ops; ++at) {
      const ir::Function& right = module.function("grad");
      const ir::Op op = right.body[at];
      if (op.results.empty() || !ir::is_float(right.type(op.results[0]).dtype)) continue;
      CAPTURE(network.name, at, ir::opcode_name(op.code), op.location);
      ir::Module wrong = module;
      ir::Function& grad = wrong.function("grad");
      const bool sign = at % 2 == 1 && !op.operands.empty() && ir::is_float(right.type(op.operands[0]).dtype);
      if (sign) {
        ir::Builder b(wrong, grad);
        b.set_position(at);
        const ir::Value changed = b.unary(ir::Opcode::neg, op.operands[0]);
        grad.body[at + 1].operands[0] = changed;
      } else {
        scale(wrong, grad, at + 1, op.results[0], 1.1);
      }
      try {
        if (!check(wrong, module, Rounding::dtypes).passed()) {
          ++planted, ++found;
          continue;
        }
      } catch (const UserError&) {  // its operands must be equal, as a join's: no such program
        continue;
      }
      ++planted;
      for (const EngineCheckRow& row : check(wrong, module, Rounding::none).rows) {
        CAPTURE(row.worst);
        CHECK(row.error < kPlanted);
      }
    }
  }
  std::printf("%d errors planted in ops, %d found, the others do not show\n", planted, found);
  CHECK(found >= 200);
}

}  // namespace
}  // namespace rewire::runtime
