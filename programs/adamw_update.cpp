// AdamW (Loshchilov & Hutter, ICLR 2019; PyTorch's form). t is the number of the weight's updates, including
// this one. Bias corrections are in f64:
//   m' = b1 m + (1 - b1) g,  v' = b2 v + (1 - b2) g^2
//   w' = (1 - lr wd) w - lr / (1 - b1^t) m' / (sqrt(v') / sqrt(1 - b2^t) + eps)
#include "programs/adamw_update.h"

#include "ir/opcodes.h"

namespace rewire::programs {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

std::vector<StateSpec> AdamwUpdate::states(const ir::TensorType& weight) {
  return {{"exp_avg", weight}, {"exp_avg_sq", weight}};
}

void AdamwUpdate::prepare(Builder& b, const Trainable& weight, const AdamwSettings& s) {
  if (s.weight.decays()) scalars_.kept(b, s.weight);
  corrected(b, weight, s);
}

Updated AdamwUpdate::update(Builder& b, const Trainable& weight, const AdamwSettings& s,
                            const std::vector<Value>& states) {
  const auto [rate, scale] = corrected(b, weight, s);
  const Value g = weight.gradient;
  const Value m = b.add(b.mul(states[0], s.betas.beta1), b.mul(g, 1 - s.betas.beta1));
  const Value v = b.add(b.mul(states[1], s.betas.beta2), b.mul(b.mul(g, g), 1 - s.betas.beta2));
  const Value denominator = b.add(b.mul(b.unary(Opcode::sqrt, v), scale), s.eps);
  const Value kept = s.weight.decays() ? b.mul(weight.value, scalars_.kept(b, s.weight)) : weight.value;
  return {b.sub(kept, b.mul(b.div(m, denominator), rate)), {m, v}};
}

const AdamwUpdate::Corrected& AdamwUpdate::corrected(Builder& b, const Trainable& weight,
                                                     const AdamwSettings& s) {
  const Value t = scalars_.count(b, weight);
  Corrected& found = corrected_[{t.id, s.weight.lr_scale, s.betas}];
  if (found.rate) return found;
  found.rate =
      b.cast(b.div(scalars_.exact_rate(b, s.weight), scalars_.correction(b, t, s.betas.beta1)), DType::f32);
  const Value root = b.unary(Opcode::sqrt, scalars_.correction(b, t, s.betas.beta2));
  found.scale = b.cast(b.div(b.constant_like(root, 1), root), DType::f32);
  return found;
}

}  // namespace rewire::programs
