#include "ir/passes/specialise_training.h"

#include "ir/opcodes.h"
#include "ir/passes/rewrite.h"

namespace rewire::ir {

void specialise_training(Module& module, PassContext& /*context*/) {
  for (Function& function : module.functions) {
    BodyRewriter rewriter(module, function);
    rewriter.run([&](const Op& op) -> std::optional<std::vector<Value>> {
      if (op.code != Opcode::is_training) return std::nullopt;
      return std::vector<Value>{rewriter.builder().constant(function.trains ? 1.0 : 0.0, DType::i1)};
    });
  }
}

}  // namespace rewire::ir
