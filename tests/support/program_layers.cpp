// Steps of random programs: contractions, composites, joins, a whole transformer block.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "ir/opcodes.h"
#include "tests/support/program_writer.h"

namespace rewire::testing {
namespace {

using namespace rewire::ir;

void matrix_product(ProgramWriter& w) {
  const Node x = w.tame(w.pick(2, 4), 2);
  const Shape shape = w.shape(x);
  const std::size_t rank = shape.size();
  const bool transpose_a = w.random.chance(0.3), transpose_b = w.random.chance(0.5);
  const std::int64_t k = shape[transpose_a ? rank - 2 : rank - 1];
  const std::int64_t n = w.random.extent(40);
  Shape other = w.random.chance(0.5) ? Shape{} : Shape(shape.begin(), shape.end() - 2);
  if (w.elements(x) / k * n > kMaxProgramElements) return;
  other.push_back(transpose_b ? n : k);
  other.push_back(transpose_b ? k : n);
  const double scale = 1 / std::sqrt(static_cast<double>(k));
  const Node y = other.size() == 2 && w.random.chance(0.6) ? w.parameter(other, -scale, scale)
                                                           : w.input(other, -scale, scale);
  w.add(w.build.matmul(x.value, y.value, transpose_a, transpose_b), 3 * x.bound);
}

Value linear(ProgramWriter& w, Value x, std::int64_t out) {
  const std::int64_t in = w.build.shape(x).back();
  const double scale = 1 / std::sqrt(static_cast<double>(in));
  const Value weight = w.parameter({out, in}, -scale, scale).value;
  return w.build.linear(x, weight, w.random.chance(0.7) ? w.parameter({out}).value : Value{});
}

Value activation(ProgramWriter& w, Value x) {
  if (w.random.chance(0.3)) return w.build.unary(Opcode::silu, x);
  return w.build.emit(Opcode::gelu, {x},
                      {{"approximate", std::string(w.random.chance(0.6) ? "none" : "tanh")}});
}

void dense_layer(ProgramWriter& w) {
  const Node x = w.tame(w.pick(2, 3), 4);
  const std::int64_t out = w.random.extent(48);
  if (w.elements(x) / w.shape(x).back() * out > kMaxProgramElements) return;
  w.add(activation(w, linear(w, x.value, out)), 2 * x.bound + 1);
}

Value layer_norm(ProgramWriter& w, Value x) {
  const std::int64_t channels = w.build.shape(x).back();
  std::vector<Value> operands = {x};
  if (w.random.chance(0.7)) operands.push_back(w.parameter({channels}, 0.5, 1.5).value);
  if (operands.size() == 2 && w.random.chance(0.8)) operands.push_back(w.parameter({channels}).value);
  return w.build.emit(Opcode::layer_norm, operands, {{"epsilon", w.random.pick({0.01, 0.1})}});
}

void composite(ProgramWriter& w) {
  const Node x = w.tame(w.pick(2, 4), 8);
  switch (w.random.integer(0, 3)) {
    case 0:
      return w.add(layer_norm(w, x.value), 6);
    case 1:
      return w.add(w.build.emit(Opcode::softmax, {x.value}, {{"axis", w.random.axis(w.shape(x).size())}}), 1);
    case 2:
      return w.add(activation(w, x.value), x.bound);
    default: {
      const Opcode code = w.random.pick({Opcode::dropout, Opcode::drop_path});
      return w.add(w.build.emit(code, {x.value, w.seed(), w.step(), w.training()},
                                {{"probability", w.random.pick({0.0, 0.1, 0.5})}, {"stream", w.stream()}}),
                   2 * x.bound);
    }
  }
}

void loss(ProgramWriter& w) {
  const Node x = w.tame(w.pick(2, 2), 8);
  const std::int64_t rows = w.shape(x)[0], classes = w.shape(x)[1];
  const Value labels = random_indices(w, classes, {rows});
  w.add(w.build.emit(Opcode::cross_entropy, {x.value, labels},
                     {{"label_smoothing", w.random.pick({0.0, 0.1})}}),
        16);
}

/// q, k, v from one product, heads, attention, and back.
Value self_attention(ProgramWriter& w, Value x, std::int64_t heads) {
  const Shape shape = w.build.shape(x);
  const std::int64_t batch = shape[0], tokens = shape[1], dim = shape[2], head = dim / heads;
  Value qkv = w.build.reshape(linear(w, x, 3 * dim), {batch, tokens, 3, heads, head});
  qkv = w.build.transpose(qkv, {2, 0, 3, 1, 4});
  std::array<Value, 3> parts;
  for (int i = 0; i < 3; ++i) {
    parts[static_cast<std::size_t>(i)] =
        w.build.reshape(w.build.slice(qkv, 0, i, i + 1), {batch, heads, tokens, head});
  }
  const Value y =
      w.build.emit(Opcode::attention, parts, {{"scale", 1 / std::sqrt(static_cast<double>(head))}});
  return linear(w, w.build.reshape(w.build.transpose(y, {0, 2, 1, 3}), {batch, tokens, dim}), dim);
}

Value join(ProgramWriter& w, Value stream, Value branch, Value input, const char* site, std::int64_t index) {
  std::vector<Value> operands = {stream, branch, input};
  const bool has_shortcut = w.random.chance(0.85);
  if (has_shortcut) operands.push_back(w.random.chance(0.7) ? stream : w.build.mul(stream, 0.9));
  operands.push_back(w.random.chance(0.7) ? branch : w.build.mul(branch, w.parameter({1}).value));
  if (w.random.chance(0.3)) operands.push_back(w.build.unary(Opcode::tanh, input));
  return w.build.emit(Opcode::residual, operands,
                      {{"block", std::int64_t{0}},
                       {"site", std::string(site)},
                       {"join_index", index},
                       {"join_count", std::int64_t{2}},
                       {"has_shortcut", has_shortcut},
                       {"shortcut_owner", std::string("test")},
                       {"branch_owner", std::string("test")}});
}

/// A pre-norm transformer block with both its joins.
void transformer_block(ProgramWriter& w) {
  const std::int64_t batch = w.random.integer(1, 3), tokens = w.random.extent(9);
  const std::int64_t heads = w.random.integer(1, 3), dim = heads * w.random.pick<std::int64_t>({1, 3, 4, 8});
  Value x;
  for (std::int64_t tries = 0; tries < 3 && !x; ++tries) {
    const Node node = w.pick(3, 3);
    if (w.elements(node) < 1000 && w.shape(node)[2] % heads == 0) x = w.tame(node, 4).value;
  }
  if (!x) x = w.input({batch, tokens, dim}).value;
  const Builder::Scope scope(w.build, "block");
  const Value h = layer_norm(w, x);
  Value f = self_attention(w, h, heads);
  if (w.random.chance(0.3)) {
    f = w.build.emit(Opcode::drop_path, {f, w.seed(), w.step(), w.training()},
                     {{"probability", 0.25}, {"stream", w.stream()}});
  }
  const Value y = join(w, x, f, h, "attn", 0);
  const Value g = layer_norm(w, y);
  const Value hidden = activation(w, linear(w, g, 2 * w.build.shape(x)[2]));
  w.add(join(w, y, linear(w, hidden, w.build.shape(x)[2]), g, "mlp", 1), 16);
}

/// A product with a block-circulant matrix, by any lowering that the lags allow.
void circulant_product(ProgramWriter& w) {
  const Node x = w.tame(w.pick(2, 4), 2);
  const std::int64_t width = w.shape(x).back(), outputs = w.random.integer(1, 3);
  std::int64_t inputs = w.random.integer(1, 4);
  while (width % inputs != 0) --inputs;
  const std::int64_t lags = width / inputs;
  if (w.elements(x) / inputs * outputs > kMaxProgramElements) return;
  std::string lowering = w.random.pick({"auto", "dense", "split2", "split4", "split8", "fft"});
  if (lowering.starts_with("split") && lags % (lowering.back() - '0') != 0) lowering = "dense";
  const bool transpose = w.random.chance(0.3);
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const Shape shape = {transpose ? inputs : outputs, transpose ? outputs : inputs, lags};
  w.add(
      w.build.emit(Opcode::circulant_matmul, {x.value, w.parameter(shape, -scale, scale).value},
                   {{"correlation", w.random.chance(0.5)}, {"transpose", transpose}, {"lowering", lowering}}),
      3 * x.bound);
}

/// Rows filtered in the frequency domain.
void spectral_filter(ProgramWriter& w) {
  const Node x = w.tame(w.pick(1, 3), 2);
  const std::int64_t length = w.shape(x).back();
  const Value spectrum = w.build.emit(Opcode::rfft, {x.value});
  const Value filtered = w.build.mul(spectrum, w.parameter({2, length / 2 + 1}, -1, 1).value);
  w.add(w.build.emit(Opcode::irfft, {filtered}, {{"length", length}}),
        x.bound * std::sqrt(static_cast<double>(length)));
}

}  // namespace

std::span<const ProgramStep> layer_steps() {
  static constexpr ProgramStep kSteps[] = {
      {matrix_product, 4},    {dense_layer, 4},       {composite, 8},      {loss, 1},
      {transformer_block, 2}, {circulant_product, 3}, {spectral_filter, 1}};
  return kSteps;
}

}  // namespace rewire::testing
