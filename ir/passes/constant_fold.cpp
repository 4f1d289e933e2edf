#include "ir/passes/constant_fold.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "ir/passes/rewrite.h"

namespace rewire::ir {
namespace {

bool is_foldable(OpClass op_class) {
  return op_class == OpClass::pointwise || op_class == OpClass::reduce || op_class == OpClass::contract ||
         op_class == OpClass::shape;
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// Folds the ops of one function, and reads the contents of their constant operands.
class Folder {
 public:
  explicit Folder(BodyRewriter& rewriter) : rewriter_(rewriter) {}

  std::optional<std::vector<Value>> visit(const Op& op) {
    if (op.operands.empty() || op.results.empty() || !is_foldable(op_info(op.code).op_class)) return {};
    const bool splats =
        op_info(op.code).op_class == OpClass::pointwise &&
        std::all_of(op.operands.begin(), op.operands.end(), [&](Value operand) { return is_splat(operand); });
    if (!splats && !is_small_and_constant(op)) return {};
    std::vector<Tensor> operands;
    for (Value operand : op.operands) operands.push_back(content(operand, splats));
    const std::vector<Tensor> results = evaluate(op, operands, splats);
    for (const Tensor& result : results) {
      if (!std::all_of(result.data.begin(), result.data.end(),
                       [&](double value) { return holds(result.type.dtype, value); })) {
        return {};
      }
    }
    return emit(op, results);
  }

 private:
  const Op* constant(Value value) const {
    const Op* op = rewriter_.definition(value);
    return op != nullptr && op->code == Opcode::constant ? op : nullptr;
  }
  bool is_splat(Value value) const {
    const Op* op = constant(value);
    return op != nullptr && op->attributes.get<Doubles>("values").empty();
  }
  const TensorType& type(Value value) const { return rewriter_.function().type(value); }

  bool is_small_and_constant(const Op& op) const {
    const auto small = [&](Value value) { return type(value).elements() <= kMaxFoldedElements; };
    return std::all_of(op.operands.begin(), op.operands.end(),
                       [&](Value operand) { return constant(operand) != nullptr && small(operand); }) &&
           std::all_of(op.results.begin(), op.results.end(), small);
  }

  Tensor content(Value value, bool as_scalar) const {
    const Attributes& attributes = constant(value)->attributes;
    Tensor tensor(as_scalar ? TensorType{type(value).dtype, {}} : type(value));
    const Doubles& values = attributes.get<Doubles>("values");
    if (values.empty()) {
      std::fill(tensor.data.begin(), tensor.data.end(), attributes.get_double("value"));
    } else {
      tensor.data = values;
    }
    return tensor;
  }

  std::vector<Tensor> evaluate(const Op& op, const std::vector<Tensor>& operands, bool as_scalar) const {
    std::vector<const Tensor*> pointers;
    for (const Tensor& operand : operands) pointers.push_back(&operand);
    std::vector<Tensor> results;
    for (Value result : op.results) {
      results.emplace_back(as_scalar ? TensorType{type(result).dtype, {}} : type(result));
    }
    EvalState state;
    EvalContext context{op, std::move(pointers), results, state};
    op_info(op.code).evaluate(context);
    return results;
  }

  std::vector<Value> emit(const Op& op, const std::vector<Tensor>& results) {
    std::vector<Value> values;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::vector<double>& data = results[i].data;
      const bool splat =
          std::all_of(data.begin(), data.end(), [&](double entry) { return same_bits(entry, data[0]); });
      Attributes attributes{{splat ? "value" : "values", splat ? Attribute(data[0]) : Attribute(data)}};
      values.push_back(rewriter_.builder().emit(Opcode::constant, {}, std::move(attributes),
                                                TensorType(type(op.results[i]))));
    }
    return values;
  }

  BodyRewriter& rewriter_;
};

}  // namespace

void constant_fold(Module& module, PassContext& /*context*/) {
  for (Function& function : module.functions) {
    BodyRewriter rewriter(module, function);
    Folder folder(rewriter);
    rewriter.run([&](const Op& op) { return folder.visit(op); });
  }
}

}  // namespace rewire::ir
