#include "ir/passes/widen_convolutions.h"

#include <unordered_map>

#include "ir/opcodes.h"
#include "ir/ops/convolution.h"
#include "ir/passes/rewrite.h"

namespace rewire::ir {
namespace {

class Widening {
 public:
  Widening(Module& module, Function& function, const NarrowConvolution& computes)
      : function_(function), rewriter_(module, function), computes_(computes) {}

  void run() {
    rewriter_.run([&](const Op& op) { return visit(op); });
  }

 private:
  using Replacement = std::optional<std::vector<Value>>;

  Replacement visit(const Op& op) {
    if (op.code == Opcode::cast && function_.type(op.results[0]).dtype == DType::f32) {
      const auto wide = wide_.find(op.operands[0].id);
      if (wide != wide_.end()) return std::vector<Value>{wide->second};
    }
    if (!is_convolution(op.code) || function_.type(op.results[0]).dtype != DType::bf16 || is_computed(op))
      return std::nullopt;
    Builder& b = rewriter_.builder();
    const Value result = b.emit(op.code, {widened(op.operands[0]), widened(op.operands[1])}, op.attributes);
    const Value narrow = b.cast(result, DType::bf16);
    wide_.emplace(narrow.id, result);
    return std::vector<Value>{narrow};
  }

  bool is_computed(const Op& op) const {
    const ConvShape shape = conv_shape(op.code, op.attributes, function_.type(op.operands[0]).shape,
                                       function_.type(op.operands[1]).shape);
    return computes_ && computes_(op.code, shape, is_channels_last(op.attributes));
  }

  /// Returns the f32 value that was rounded to x.
  Value widened(Value x) {
    const Op* definition = rewriter_.definition(x);
    if (definition != nullptr && definition->code == Opcode::cast &&
        function_.type(definition->operands[0]).dtype == DType::f32)
      return definition->operands[0];
    return rewriter_.builder().cast(x, DType::f32);
  }

  Function& function_;
  BodyRewriter rewriter_;
  const NarrowConvolution& computes_;
  std::unordered_map<std::int32_t, Value> wide_;  // the f32 value before the rounding, by the rounded one
};

}  // namespace

void widen_convolutions(Module& module, PassContext& context) {
  for (Function& function : module.functions) Widening(module, function, context.narrow_convolution).run();
}

}  // namespace rewire::ir
