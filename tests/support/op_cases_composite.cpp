// Cases of random draws, composites, the residual join and state.
#include <cmath>

#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "tests/support/case_builder.h"

namespace rewire::testing {

using namespace rewire::ir;

namespace {

Value seed_input(CaseBuilder& c) {
  return c.input(c.scalar(DType::i64, static_cast<double>(c.integer(0, std::int64_t{1} << 40))));
}

Value step_input(CaseBuilder& c) {
  return c.input(c.scalar(DType::i64, static_cast<double>(c.integer(0, 100000))));
}

/// A random form of attention: its first three operands and its optional ones, and its attributes.
struct AttentionCase {
  std::vector<Tensor> operands, optional;
  Attributes attributes;
  Shape output;
};

/// Every query sees a key at least: itself, if there is a mask.
AttentionCase attention_of(CaseBuilder& c) {
  const std::int64_t batch = c.integer(1, 2);
  const std::int64_t groups = c.integer(1, 2), heads = groups * c.pick<std::int64_t>({1, 1, 1, 2});
  const std::int64_t tokens = c.pick<std::int64_t>({1, 5, 13, 17, 31, 43});
  const bool causal = c.chance(0.4), documents = c.chance(0.3), bias = c.chance(0.3);
  const bool square = causal || documents || c.chance(0.7);
  const std::int64_t keys = square ? tokens : c.pick<std::int64_t>({1, 3, 19, 33});
  const std::int64_t width = c.pick<std::int64_t>({1, 3, 8, 16, 20});
  const std::int64_t value_width = c.chance(0.7) ? width : c.pick<std::int64_t>({1, 5, 8, 24});
  AttentionCase result;
  result.operands = {c.tensor({batch, heads, tokens, width}), c.tensor({batch, groups, keys, width}),
                     c.tensor({batch, groups, keys, value_width})};
  result.output = {batch, heads, tokens, value_width};
  result.attributes = {{"scale", 1 / std::sqrt(static_cast<double>(width))}, {"causal", causal}};
  if (causal && c.chance(0.5)) result.attributes.set("window", c.integer(1, tokens + 2));
  if (bias) {
    const auto extent = [&](std::int64_t whole) { return c.chance(0.5) ? whole : 1; };
    result.optional.push_back(c.tensor({extent(batch), extent(heads), extent(tokens), keys}, -3, 3));
    result.attributes.set("bias", true);
  }
  if (documents) {
    Tensor numbers({DType::i32, {batch, tokens}});
    double number = 0;
    for (double& value : numbers.data) value = number += c.chance(0.2) ? 1 : 0;
    result.optional.push_back(std::move(numbers));
    result.attributes.set("documents", true);
  }
  return result;
}

/// The state parameter `name` with a random value.
void add_state(CaseBuilder& c, const std::string& name, const TensorType& type) {
  Parameter parameter;
  parameter.name = name;
  parameter.type = type;
  c.module().add_parameter(std::move(parameter));
  c.state().tensors[name] = c.tensor(type);
}

}  // namespace

void random_case(CaseBuilder& c, Opcode code) {
  const Value seed = seed_input(c);
  const Value step = step_input(c);
  const TensorType type{DType::f32, c.shape(1, 4)};
  c.apply(code, {seed, step}, {{"stream", c.stream()}}, type);
}

void layer_norm_case(CaseBuilder& c, Opcode code) {
  // The derivative at a constant row is of the order of 1 / sqrt(epsilon): rows of one element take a large
  // one.
  const Shape shape = c.shape(1, 4);
  const double epsilon = shape.back() < 3 ? 0.1 : c.pick({1e-6, 1e-5, 1e-3});
  std::vector<Value> operands = {c.input(c.tensor(shape))};
  for (std::int64_t count = c.integer(0, code == Opcode::layer_norm ? 2 : 1); count > 0; --count) {
    operands.push_back(c.input(c.tensor({shape.back()})));
  }
  c.apply(code, operands, {{"epsilon", epsilon}});
}

void rope_case(CaseBuilder& c, Opcode code) {
  const Shape shape = {c.integer(1, 2), c.integer(1, 3), c.integer(1, 20), 2 * c.integer(1, 9)};
  std::vector<Value> operands = {c.input(c.tensor(shape))};
  if (c.chance(0.5)) {
    Tensor positions({DType::i32, {shape[0], shape[2]}});
    for (double& position : positions.data) position = static_cast<double>(c.integer(0, 5000));
    operands.push_back(c.input(positions));
  }
  c.apply(code, operands, {{"theta", c.pick({100.0, 10000.0})}, {"interleaved", c.chance(0.5)}});
}

void softmax_case(CaseBuilder& c, Opcode code) {
  const Shape shape = c.shape(1, 4);
  const Value x = c.input(c.tensor(shape, -4, 4));
  c.apply(code, {x}, {{"axis", c.axis(shape.size())}});
}

void activation_case(CaseBuilder& c, Opcode code) {
  if (code == Opcode::relu) return c.apply(code, {c.input(c.away_from_zero(c.shape(1, 4), 0.1, 4))});
  const Value x = c.input(c.tensor(c.shape(1, 4), -4, 4));
  if (code == Opcode::silu) return c.apply(code, {x});
  c.apply(code, {x}, {{"approximate", std::string(c.pick({"none", "tanh"}))}});
}

void attention_case(CaseBuilder& c, Opcode code) {
  const AttentionCase made = attention_of(c);
  std::vector<Value> operands;
  for (const Tensor& tensor : made.operands) operands.push_back(c.input(tensor));
  for (const Tensor& tensor : made.optional) operands.push_back(c.input(tensor));
  c.apply(code, operands, made.attributes);
}

void attention_grad_case(CaseBuilder& c, Opcode code) {
  const AttentionCase made = attention_of(c);
  CaseBuilder forward(0);
  std::vector<Value> operands;
  for (const auto* tensors : {&made.operands, &made.optional})
    for (const Tensor& tensor : *tensors) operands.push_back(forward.input(tensor));
  forward.apply(Opcode::attention, operands, made.attributes);
  const OpCase attention = forward.finish();
  std::vector<Tensor> read = made.operands, tensors = made.operands;
  read.insert(read.end(), made.optional.begin(), made.optional.end());
  EvalState state;
  for (Tensor& result : evaluate(attention.module, attention.module.functions[0], read, state)) {
    for (double& value : result.data) value = round_to(DType::f32, value);
    tensors.push_back(std::move(result));
  }
  tensors.push_back(c.tensor(made.output));
  tensors.insert(tensors.end(), made.optional.begin(), made.optional.end());

  operands.clear();
  for (const Tensor& tensor : tensors) operands.push_back(c.input(tensor, false));
  c.apply(code, operands, made.attributes);
}

void cross_entropy_case(CaseBuilder& c, Opcode code) {
  const std::int64_t batch = c.extent(20);
  const std::int64_t classes = c.extent(100);
  Tensor labels({c.pick({DType::i32, DType::i64}), {batch}});
  for (double& label : labels.data) label = static_cast<double>(c.integer(0, classes - 1));
  const Value logits = c.input(c.tensor({batch, classes}, -4, 4));
  const Value targets = c.input(labels);
  c.apply(code, {logits, targets}, {{"label_smoothing", c.pick({0.0, 0.1})}});
}

void dropout_case(CaseBuilder& c, Opcode code) {
  const Value x = c.input(c.tensor(c.shape(1, 4)));
  const Value seed = seed_input(c);
  const Value step = step_input(c);
  const Value training = c.input(c.scalar(DType::i1, c.chance(0.8) ? 1 : 0));
  c.apply(code, {x, seed, step, training},
          {{"probability", c.pick({0.0, 0.1, 0.5, 0.75})}, {"stream", c.stream()}});
}

void residual_case(CaseBuilder& c, Opcode code) {
  const Shape shape = c.shape(3, 4);
  const bool has_shortcut = c.chance(0.7);
  std::int64_t operands = 3 + (has_shortcut ? 2 : 1) + c.integer(0, 2);
  std::vector<Value> values;
  for (; operands > 0; --operands) values.push_back(c.input(c.tensor(shape)));
  c.apply(code, values,
          {{"block", c.integer(0, 5)},
           {"site", std::string(c.pick({"attn", "mlp"}))},
           {"join_index", std::int64_t{3}},
           {"join_count", std::int64_t{12}},
           {"has_shortcut", has_shortcut},
           {"shortcut_owner", std::string("test")},
           {"branch_owner", std::string("test")}});
}

void param_case(CaseBuilder& c, Opcode code) {
  const TensorType type{c.dtype({DType::i64, DType::i1}), c.shape(0, 4)};
  add_state(c, "weight", type);
  c.apply(code, {}, {{"name", std::string("weight")}}, type);
}

void update_case(CaseBuilder& c, Opcode code) {
  const TensorType type{c.dtype({DType::i64, DType::i1}), c.shape(0, 4)};
  add_state(c, "weight", type);
  std::vector<Value> operands = {c.input(c.tensor(type))};
  if (c.chance(0.6)) operands.push_back(c.input(c.tensor({DType::i1, {}})));
  c.apply(code, operands, {{"name", std::string("weight")}});
}

void is_training_case(CaseBuilder& c, Opcode code) {
  c.state().training = c.chance(0.5);
  c.apply(code, {}, {}, TensorType{DType::i1, {}});
}

}  // namespace rewire::testing
