// Reverse-mode differentiation. A forward walk marks the values that depend on `wrt`. A backward walk then
// calls the VJP (vector-Jacobian product) of each op.
#include "ir/autodiff/autodiff.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ir/error.h"
#include "ir/ops/functions.h"
#include "ir/ops/op_info.h"

namespace rewire::ir {
namespace {

/// Computes the gradients of one loss. run() walks the forward body backward and sums up the cotangents.
class Differentiator {
 public:
  Differentiator(Builder& builder, Value loss, std::span<const Value> wrt);

  void run();
  Value gradient(Value value);

 private:
  bool needs(Value value) const { return needed_[static_cast<std::size_t>(value.id)]; }
  Value& cotangent(Value value) { return cotangents_[static_cast<std::size_t>(value.id)]; }
  bool differentiable(Value value) const { return is_float(builder_.type(value).dtype); }
  void mark_dependents(std::span<const Value> wrt);
  void pull_back(const Op& op, VjpFunction vjp);
  void add_cotangent(const Op& op, Value operand, Value gradient);

  Builder& builder_;
  Function& function_;
  Value loss_;
  std::size_t forward_ops_;
  std::vector<bool> needed_;       // by Value::id: whether it is a float and depends on a value of wrt
  std::vector<Value> cotangents_;  // by Value::id: dL/d value, as far as it is summed; invalid: zero so far
};

Differentiator::Differentiator(Builder& builder, Value loss, std::span<const Value> wrt)
    : builder_(builder),
      function_(builder.function()),
      loss_(loss),
      forward_ops_(function_.body.size()),
      needed_(function_.types.size()),
      cotangents_(function_.types.size()) {
  const TensorType& type = builder.type(loss);
  if (!is_float(type.dtype) || type.rank() != 0)
    internal_error("differentiate: the loss is {}, not a float scalar", to_string(type));
  mark_dependents(wrt);
}

/// Marks in needed_ what depends on `wrt`. No gradient passes an op without a VJP. So a value that depends
/// on `wrt` only through such ops counts as constant.
void Differentiator::mark_dependents(std::span<const Value> wrt) {
  for (Value w : wrt) needed_[static_cast<std::size_t>(w.id)] = differentiable(w);
  for (const Op& op : function_.body) {
    if (op_info(op.code).vjp == nullptr) continue;
    if (std::none_of(op.operands.begin(), op.operands.end(), [&](Value operand) { return needs(operand); }))
      continue;
    for (Value result : op.results) {
      if (differentiable(result)) needed_[static_cast<std::size_t>(result.id)] = true;
    }
  }
}

void Differentiator::run() {
  builder_.set_position(forward_ops_);
  if (!needs(loss_)) return;
  const std::string location = builder_.location();
  builder_.set_location("loss.grad");
  cotangent(loss_) = builder_.constant(1.0, builder_.type(loss_).dtype);
  for (std::size_t i = forward_ops_; i-- > 0;) {
    const VjpFunction vjp = op_info(function_.body[i].code).vjp;
    if (vjp == nullptr) continue;
    const Op op = function_.body[i];  // a copy, because the rule appends to the body
    pull_back(op, vjp);
  }
  builder_.set_location(location);
}

void Differentiator::pull_back(const Op& op, VjpFunction vjp) {
  std::vector<Value> result_cotangents;
  for (Value result : op.results) result_cotangents.push_back(cotangent(result));
  std::vector<bool> needed;
  for (Value operand : op.operands) needed.push_back(needs(operand));
  const bool flows =
      std::any_of(result_cotangents.begin(), result_cotangents.end(), [](Value v) { return bool(v); });
  if (!flows || std::find(needed.begin(), needed.end(), true) == needed.end()) return;

  builder_.set_location(op.location.empty() ? "grad" : op.location + ".grad");
  VjpContext context(builder_, op, std::move(result_cotangents), std::move(needed));
  vjp(context);
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (context.needs(i) && context.gradients[i]) add_cotangent(op, op.operands[i], context.gradients[i]);
  }
}

void Differentiator::add_cotangent(const Op& op, Value operand, Value gradient) {
  if (builder_.type(gradient) != builder_.type(operand)) {
    internal_error("VJP of {}: the gradient is {} and the operand {}", describe(op),
                   to_string(builder_.type(gradient)), to_string(builder_.type(operand)));
  }
  Value& sum = cotangent(operand);
  sum = sum ? builder_.add(sum, gradient) : gradient;
}

Value Differentiator::gradient(Value value) {
  if (Value found = cotangent(value)) return found;
  const TensorType type = builder_.type(value);
  return builder_.constant(0.0, type.dtype, type.shape);
}

}  // namespace

std::vector<Value> differentiate(Builder& builder, Value loss, std::span<const Value> wrt) {
  Differentiator differentiator(builder, loss, wrt);
  differentiator.run();
  std::vector<Value> gradients;
  for (Value w : wrt) gradients.push_back(differentiator.gradient(w));
  return gradients;
}

void vjp_undefined(VjpContext& context) {
  internal_error("{}: its gradient is not defined", describe(context.op));
}

}  // namespace rewire::ir
