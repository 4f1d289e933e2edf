#include "tests/support/random_casts.h"

#include <algorithm>
#include <random>

#include "ir/ops/op_info.h"
#include "ir/passes/rewrite.h"
#include "ir/verify.h"

namespace rewire::testing {
namespace {

using ir::DType;
using ir::Value;

bool may_change(const ir::Op& op, const ir::Function& function) {
  const ir::OpClass kind = ir::op_info(op.code).op_class;
  const bool plain = kind == ir::OpClass::pointwise || kind == ir::OpClass::reduce ||
                     kind == ir::OpClass::contract || kind == ir::OpClass::composite ||
                     kind == ir::OpClass::shape;
  const auto is_f32 = [&](Value value) { return function.type(value).dtype == DType::f32; };
  return plain && !ir::op_info(op.code).typed && !op.operands.empty() && !op.results.empty() &&
         std::ranges::any_of(op.operands, is_f32) && std::ranges::all_of(op.results, is_f32);
}

}  // namespace

void cast_at_random(ir::Module& module, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto one_in = [&](std::uint64_t n) { return random() % n == 0; };
  constexpr DType kDTypes[] = {DType::bf16, DType::bf16, DType::f16, DType::f64};
  const DType dtype = kDTypes[random() % std::size(kDTypes)];
  ir::Function& function = module.function("forward");
  ir::BodyRewriter rewriter(module, function);
  rewriter.run([&](const ir::Op& op) -> std::optional<std::vector<Value>> {
    if (!may_change(op, function)) return std::nullopt;
    const bool within = one_in(3), behind = !within && one_in(3);
    if (!within && !behind) return std::nullopt;
    ir::Builder& b = rewriter.builder();
    std::vector<Value> operands = op.operands;
    for (Value& operand : operands) {
      if (within && b.type(operand).dtype == DType::f32) operand = b.cast(operand, dtype);
    }
    std::vector<Value> results = b.emit_all(op.code, operands, op.attributes);
    for (Value& result : results) {
      if (behind) result = b.cast(result, dtype);
      result = b.cast(result, DType::f32);
    }
    return results;
  });
  ir::verify(module);
}

}  // namespace rewire::testing
