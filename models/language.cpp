#include "models/language.h"

#include <cmath>

#include "ir/error.h"
#include "ir/opcodes.h"

namespace rewire::models {

using ir::Builder;
using ir::Opcode;
using ir::Value;

Embedding embed(Layers& net, std::string_view name, Value tokens, std::int64_t words, std::int64_t width,
                double std) {
  Builder& b = net.builder();
  const Builder::Scope scope(b, name);
  const Value table = net.decaying("weight", {words, width}, {ir::InitKind::normal, std}, "embedding");
  ir::Shape shape = b.shape(tokens);
  const Value flat = b.reshape(tokens, {b.type(tokens).elements()});
  shape.push_back(width);
  return {b.reshape(b.emit(Opcode::gather, {table, flat}, {{"axis", std::int64_t{0}}}), shape), table};
}

Value split_heads(Builder& b, Value x, std::int64_t heads) {
  const ir::Shape shape = b.shape(x);
  return b.transpose(b.reshape(x, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

Value merge_heads(Builder& b, Value x) {
  const ir::Shape shape = b.shape(x);
  return b.reshape(b.transpose(x, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
}

Value causal_attention(Builder& b, Value q, Value k, Value v) {
  const double scale = 1 / std::sqrt(static_cast<double>(b.shape(q)[3]));
  return b.emit(Opcode::attention, {q, k, v}, {{"scale", scale}, {"causal", true}});
}

void check_heads(std::int64_t dim, std::int64_t heads) {
  if (dim % heads == 0) return;
  user_error("model.dim={} is not a multiple of model.heads={}; set dim to heads times a head's width", dim,
             heads);
}

ir::ParameterSpec vocab_parameter(std::int64_t default_value) {
  return ir::int_parameter("vocab", default_value, "number of words; ids are below it")
      .at_least(2)
      .at_most(1 << 22);
}

ir::ParameterSpec context_parameter(std::int64_t default_value) {
  return ir::int_parameter("context", default_value, "tokens of a window").at_least(1).at_most(1 << 20);
}

ir::ParameterSpec dropout_parameter() {
  return ir::float_parameter("dropout", 0, "dropout rate after the embedding and at the end of each branch")
      .at_least(0)
      .below(1);
}

}  // namespace rewire::models
