#include "models/language.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ir/error.h"
#include "ir/opcodes.h"

namespace rewire::models {

using ir::Builder;
using ir::Opcode;
using ir::Value;

namespace {

// Value embeddings: the standard deviation of the tables at the start, which the values' own matrix has too; the bound
// of the gate's weights at the start; the gate's largest value; the channels that it reads.
constexpr double kTableStd = 0.02, kGateBound = 0.02, kMostGate = 3;
constexpr std::int64_t kGateChannels = 12;

}  // namespace

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

Value causal_attention(Builder& b, Value q, Value k, Value v, const Sight& sight) {
  const double scale = 1 / std::sqrt(static_cast<double>(b.shape(q)[3]));
  ir::Attributes attributes = {{"scale", scale}, {"causal", true}};
  if (sight.window > 0) attributes.set("window", sight.window);
  std::vector<Value> operands = {q, k, v};
  if (sight.documents) {
    attributes.set("documents", true);
    operands.push_back(sight.documents);
  }
  return b.emit(Opcode::attention, operands, std::move(attributes));
}

Sight sight_of(Builder& b, const ir::Attributes& options, std::int64_t batch) {
  Sight sight;
  sight.window = options.get_int("window");
  if (options.get_bool("documents"))
    sight.documents = b.argument("documents", {ir::DType::i32, {batch, options.get_int("context")}});
  return sight;
}

ValueEmbeddings::ValueEmbeddings(Layers& net, const ir::Attributes& options, Value tokens, std::int64_t heads,
                                 std::int64_t width)
    : layers_(net), rows_(static_cast<std::size_t>(options.get_int("depth"))) {
  if (!options.get_bool("value_embeddings")) return;
  for (std::size_t block = rows_.size(); block > 0; block -= std::min<std::size_t>(block, 2)) {
    const std::string name = fmt::format("value_embeds.{}", block - 1);
    const Value rows = embed(net, name, tokens, options.get_int("vocab"), heads * width, kTableStd).rows;
    rows_[block - 1] = split_heads(net.builder(), rows, heads);
  }
}

Value ValueEmbeddings::add_to(Value v, Value z, std::int64_t block) const {
  const Value rows = rows_[static_cast<std::size_t>(block)];
  if (!rows) return v;
  Builder& b = layers_.builder();
  const ir::Shape shape = b.shape(v);
  const Value seen = b.slice(z, 2, 0, std::min(kGateChannels, b.shape(z)[2]));
  const Value gate = layers_.linear("ve_gate", seen, shape[1],
                                    {.init = {ir::InitKind::uniform, 0, kGateBound}, .bias = false});
  const Value factor = b.mul(b.unary(Opcode::sigmoid, b.transpose(gate, {0, 2, 1})), kMostGate);
  return b.add(v, b.mul(b.reshape(factor, {shape[0], shape[1], shape[2], 1}), rows));
}

Value capped(Builder& b, Value logits, double cap) {
  return cap == 0 ? logits : b.mul(b.unary(Opcode::tanh, b.div(logits, cap)), cap);
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

ir::ParameterSpec window_parameter() {
  return ir::int_parameter("window", 0, "a token sees itself and the window - 1 before it; 0: all before it")
      .at_least(0);
}

ir::ParameterSpec documents_parameter() {
  return ir::bool_parameter(
      "documents", false, "take the numbers of the tokens' documents (data.pack) and see no other document");
}

ir::ParameterSpec softcap_parameter() {
  return ir::float_parameter("softcap", 0, "logits become softcap tanh(logits / softcap); 0: they stay")
      .at_least(0);
}

ir::ParameterSpec value_embeddings_parameter() {
  return ir::bool_parameter("value_embeddings", false,
                            "add gated rows of further embeddings to the values of every other block");
}

ir::ParameterSpec dropout_parameter() {
  return ir::float_parameter("dropout", 0, "dropout rate after the embedding and at the end of each branch")
      .at_least(0)
      .below(1);
}

}  // namespace rewire::models
