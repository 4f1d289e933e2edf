// Cross-entropy and the top-k counts, in ops that every backend has.
#include "runtime/train/loss.h"

#include <numeric>

namespace rewire::runtime {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

Value sum_all(Builder& builder, Value x) {
  ir::Ints axes(builder.shape(x).size());
  std::iota(axes.begin(), axes.end(), 0);
  return axes.empty() ? x : builder.reshape(builder.sum(x, std::move(axes)), {});
}

Value sample_loss(Builder& builder, Value logits, Value labels, double label_smoothing) {
  return builder.emit(Opcode::cross_entropy, {logits, labels}, {{"label_smoothing", label_smoothing}});
}

Value mean_loss(Builder& builder, Value per_sample) {
  const auto batch = static_cast<double>(builder.shape(per_sample).at(0));
  return builder.div(sum_all(builder, per_sample), batch);
}

Value label_rank(Builder& builder, Value logits, Value labels) {
  const std::int64_t batch = builder.shape(logits).at(0), classes = builder.shape(logits).at(1);
  const DType dtype = builder.type(logits).dtype;
  Value index = builder.emit(Opcode::iota, {}, {{"axis", std::int64_t{1}}},
                             ir::TensorType{DType::i64, {batch, classes}});
  Value label = builder.broadcast(builder.reshape(labels, {batch, 1}), {batch, classes});
  Value one_hot = builder.compare("eq", index, label);
  Value zero = builder.constant(0, dtype);
  Value own = builder.sum(builder.select(one_hot, logits, zero), {1});
  // "not <=" and not ">": a NaN then counts against the label.
  Value beats = builder.unary(Opcode::logical_not, builder.compare("le", logits, own));
  Value ties = builder.binary(Opcode::logical_and, builder.compare("eq", logits, own),
                              builder.compare("lt", index, label));
  Value ahead = builder.cast(builder.binary(Opcode::logical_or, beats, ties), DType::f32);
  return builder.reshape(builder.sum(ahead, {1}), {batch});
}

Value count_hits(Builder& builder, Value rank, double k, Value weight) {
  Value hits = builder.cast(builder.compare("lt", rank, builder.constant_like(rank, k)), DType::f32);
  return sum_all(builder, weight ? builder.mul(hits, weight) : hits);
}

}  // namespace rewire::runtime
