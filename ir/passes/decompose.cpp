#include "ir/passes/decompose.h"

#include "ir/error.h"
#include "ir/ops/op_info.h"
#include "ir/passes/rewrite.h"

namespace rewire::ir {
namespace {

/// A decomposition may contain other composites, up to this depth.
constexpr int kMaxDepth = 8;

}  // namespace

void decompose(Module& module, PassContext& /*context*/) {
  for (Function& function : module.functions) {
    BodyRewriter rewriter(module, function);
    const auto visit = [&](const Op& op) -> std::optional<std::vector<Value>> {
      const DecomposeFunction rule = op_info(op.code).decompose;
      if (rule == nullptr) return std::nullopt;
      return rule(rewriter.builder(), op);
    };
    int depth = 0;
    while (rewriter.run(visit)) {
      if (++depth > kMaxDepth) internal_error("the decompositions in '{}' do not end", function.name);
    }
  }
}

}  // namespace rewire::ir
