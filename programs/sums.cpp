#include "programs/sums.h"

#include <numeric>

#include "ir/opcodes.h"

namespace rewire::programs {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

Value sum_all(ir::Builder& builder, Value x) {
  ir::Ints axes(builder.shape(x).size());
  std::iota(axes.begin(), axes.end(), 0);
  return axes.empty() ? x : builder.reshape(builder.sum(x, std::move(axes)), {});
}

Value mean_all(ir::Builder& builder, Value x) {
  const auto count = static_cast<double>(builder.type(x).elements());
  return builder.div(sum_all(builder, x), count);
}

ir::Value surprisals(ir::Builder& b, ir::Value x) {
  const ir::Value shifted = b.sub(x, b.unary(ir::Opcode::stop_gradient, b.max(x, {-1})));
  return b.sub(b.unary(ir::Opcode::log, b.sum(b.unary(ir::Opcode::exp, shifted), {-1})), shifted);
}

Value is_class(Builder& b, Value label, std::int64_t classes) {
  return b.binary(Opcode::logical_and, b.compare("ge", label, b.constant_like(label, 0)),
                  b.compare("lt", label, b.constant_like(label, static_cast<double>(classes))));
}

CountedSums counted_cross_entropy(Builder& b, Value logits, Value label, Value weight) {
  const ir::Shape shape = b.shape(logits);
  if (b.type(logits).dtype != DType::f64) logits = b.cast(logits, DType::f32);
  const Value zero = b.constant_like(label, 0);
  const Value counts = is_class(b, label, shape[1]);
  Value counted = b.cast(counts, DType::f32);
  if (weight) counted = b.mul(counted, weight);
  const Value safe = b.select(counts, label, b.broadcast(zero, {shape[0]}));
  const Value each = b.emit(Opcode::cross_entropy, {logits, safe}, {{"label_smoothing", 0.0}});
  const Value best = b.reshape(b.emit(Opcode::argmax, {logits}, {{"axis", std::int64_t{1}}}), {shape[0]});
  const Value hits = b.cast(b.compare("eq", b.cast(best, b.type(label).dtype), safe), DType::f32);
  return {sum_all(b, b.mul(b.cast(each, DType::f32), counted)), sum_all(b, b.mul(hits, counted)),
          sum_all(b, counted)};
}

}  // namespace rewire::programs
