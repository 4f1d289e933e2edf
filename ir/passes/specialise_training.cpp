#include "ir/passes/specialise_training.h"

#include "ir/opcodes.h"
#include "ir/passes/rewrite.h"

namespace rewire::ir {
namespace {

bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t plus = names.find('+');
    if (names.substr(0, plus) == name) return true;
    names = plus == std::string_view::npos ? std::string_view() : names.substr(plus + 1);
  }
  return false;
}

bool trains(const Module& module, const Function& function, const PassContext& context) {
  const Attribute* names = module.attributes.find("training");
  if (names == nullptr || !std::holds_alternative<std::string>(*names)) return context.training;
  return lists(std::get<std::string>(*names), function.name);
}

}  // namespace

void specialise_training(Module& module, PassContext& context) {
  for (Function& function : module.functions) {
    const double training = trains(module, function, context) ? 1.0 : 0.0;
    BodyRewriter rewriter(module, function);
    rewriter.run([&](const Op& op) -> std::optional<std::vector<Value>> {
      if (op.code != Opcode::is_training) return std::nullopt;
      return std::vector<Value>{rewriter.builder().constant(training, DType::i1)};
    });
  }
}

}  // namespace rewire::ir
