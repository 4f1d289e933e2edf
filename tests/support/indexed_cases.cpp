// Modules of indexed ops, and what they are to give; see indexed_cases.h.
#include "tests/support/indexed_cases.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ir/autodiff/autodiff.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "tests/support/accuracy.h"
#include "tests/support/case_builder.h"

namespace rewire::testing {
namespace {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Shape;
using ir::Tensor;
using ir::Value;

/// The module's one function while it is written, with its inputs.
struct Written {
  explicit Written(const std::string& name) : function(indexed.module.functions.emplace_back()) {
    indexed.name = indexed.module.name = name;
    function.name = "main";
  }
  Value input(Tensor tensor) {
    indexed.inputs.push_back(std::move(tensor));
    return b.argument("a" + std::to_string(indexed.inputs.size()), indexed.inputs.back().type);
  }
  void result(Value value) { b.result("r" + std::to_string(function.results.size()), value); }

  IndexedCase indexed;
  ir::Function& function;
  Builder b{indexed.module, function};
};

/// Multiples of 1/8, many of them equal; `special`: some are no numbers.
Tensor eighths(CaseBuilder& c, Shape shape, DType dtype, bool special) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Tensor tensor({dtype, std::move(shape)});
  for (double& x : tensor.data) {
    x = static_cast<double>(c.integer(-20, 20)) / (ir::is_float(dtype) ? 8 : 1);
    if (special && c.chance(0.1)) x = c.pick({kInfinity, -kInfinity, std::nan(""), -0.0});
  }
  return tensor;
}

IndexedCase random_case(std::uint64_t seed) {
  CaseBuilder c(seed);
  Written w("indexed " + std::to_string(seed));
  const int rank = static_cast<int>(seed % 4) + 1;
  const Shape shape = c.shape(rank, rank, 900);
  const auto axis = static_cast<std::size_t>(c.integer(0, rank - 1));
  const DType dtype = c.dtype({DType::f64, DType::i32, DType::i64, DType::bf16, DType::f16});
  if (ir::dtype_bytes(dtype) == 2) w.indexed.tolerance = 3 * storage_error(dtype);
  const bool special = ir::is_float(dtype) && c.chance(0.5);

  Shape lists(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(c.chance(0.7) ? axis : 0));
  Shape moved = shape;
  lists.push_back(moved[axis] = c.pick({1, 2, 7, 19}));
  Tensor indices({c.pick({DType::i32, DType::i64}), lists});
  for (double& index : indices.data) index = static_cast<double>(c.integer(-2, shape[axis] + 1));

  const ir::Attributes along{{"axis", static_cast<std::int64_t>(axis)}};
  const Value x = w.input(eighths(c, shape, dtype, special)), at = w.input(indices);
  const Value updates = w.input(eighths(c, moved, dtype, special));
  w.result(w.b.emit(Opcode::gather, {x, at}, along));
  w.result(w.b.emit(Opcode::scatter_add, {x, at, updates}, along));
  w.result(
      w.b.emit(Opcode::scatter_add, {w.b.constant(0.0, dtype, shape), at, w.b.mul(updates, updates)}, along));
  for (const bool descending : {false, true}) {
    ir::Attributes order = along;
    order.set("descending", descending);
    const auto sorted = w.b.emit_all(Opcode::sort, std::array{x}, order);
    w.result(sorted[0]);
    w.result(sorted[1]);
    // What the order picks of another tensor, where it is a list for each place.
    const bool each = axis + 1 == shape.size();
    if (each) w.result(w.b.emit(Opcode::gather, {w.b.mul(x, x), sorted[1]}, along));
  }
  return std::move(w.indexed);
}

/// Enough places that rows are walked, and those that add nothing skipped: many rows, so that they are cut into
/// parts; some of them for the same place, some for places outside.
IndexedCase skipped_rows(DType dtype) {
  constexpr std::int64_t kBatch = 4, kPlaces = 150, kRows = 310, kWidth = 24;
  CaseBuilder c(11);
  Written w("skipped rows, " + std::string(ir::dtype_name(dtype)));
  Tensor indices({DType::i32, {kBatch, kRows}});
  for (double& index : indices.data) index = static_cast<double>(c.integer(-3, kPlaces + 2));
  const Value base = w.input(eighths(c, {kBatch, kPlaces, kWidth}, dtype, true)), at = w.input(indices);
  const Value updates = w.input(eighths(c, {kBatch, kRows, kWidth}, dtype, true));
  const ir::Attributes along{{"axis", std::int64_t{1}}};
  w.result(w.b.emit(Opcode::scatter_add, {base, at, updates}, along));
  const Value zero = w.b.constant(0.0, dtype, {kBatch, kPlaces, kWidth});
  w.result(w.b.emit(Opcode::scatter_add, {zero, at, w.b.add(updates, updates)}, along));
  w.result(w.b.emit(Opcode::gather, {base, at}, along));
  return std::move(w.indexed);
}

/// The gradient of a table of words: more pairs of rows than a CPU compares, one list or a list for each sample. With
/// one, it is also added to a sum and to a product, which have no other reader.
IndexedCase table(DType index, bool lists) {
  constexpr std::int64_t kWords = 1100, kTokens = 530, kWidth = 19;
  CaseBuilder c(13);
  Written w("table, " + std::string(ir::dtype_name(index)) + (lists ? ", lists" : ""));
  const Shape samples = lists ? Shape{2} : Shape{};
  const auto with = [&](std::initializer_list<std::int64_t> more) {
    Shape shape = samples;
    shape.insert(shape.end(), more);
    return shape;
  };
  Tensor indices({index, with({kTokens})});
  for (double& place : indices.data) place = static_cast<double>(c.integer(-3, kWords + 2));
  const Value base = w.input(eighths(c, with({kWords, kWidth}), DType::f32, true)), at = w.input(indices);
  const Value updates = w.input(eighths(c, with({kTokens, kWidth}), DType::f32, true));
  const ir::Attributes along{{"axis", static_cast<std::int64_t>(samples.size())}};
  w.result(w.b.emit(Opcode::scatter_add, {base, at, updates}, along));
  const Value zero = w.b.constant(0.0, DType::f32, with({kWords, kWidth}));
  const Value gradient = w.b.emit(Opcode::scatter_add, {zero, at, w.b.add(updates, updates)}, along);
  w.result(gradient);
  const Value row = w.b.slice(base, static_cast<int>(samples.size()), 0, 1);
  w.result(w.b.emit(Opcode::scatter_add, {w.b.broadcast(row, with({kWords, kWidth})), at, updates}, along));
  if (lists) return std::move(w.indexed);
  const auto scattered = [&] { return w.b.emit(Opcode::scatter_add, {zero, at, updates}, along); };
  w.result(w.b.add(w.b.add(base, w.b.mul(base, base)), scattered()));
  constexpr std::int64_t kInner = 5;
  const Value left = w.input(eighths(c, {kWords, kInner}, DType::f32, false));
  const Value right = w.input(eighths(c, {kInner, kWidth}, DType::f32, false));
  w.result(w.b.add(scattered(), w.b.matmul(left, right)));
  // The sum and what becomes of it are parts of one tensor.
  const Value product = w.b.matmul(left, w.b.mul(right, right));
  const Value once = w.b.emit(Opcode::scatter_add, {product, at, updates}, along);
  w.result(w.b.concat(std::array{product, once}, 0));
  const Value sum = w.b.add(base, w.b.mul(base, 3.0));
  const Value first = w.b.emit(Opcode::scatter_add, {sum, at, updates}, along);
  const Value second = w.b.emit(Opcode::scatter_add, {first, at, updates}, along);
  w.result(w.b.concat(std::array{sum, second, first}, 0));
  return std::move(w.indexed);
}

/// Rows that a CPU's kernels do not compare in pairs.
IndexedCase long_rows() {
  constexpr std::int64_t kRows = 2, kPlaces = 1100;
  CaseBuilder c(5);
  Written w("long rows");
  const Value x = w.input(eighths(c, {kRows, kPlaces}, DType::f32, true));
  const ir::Attributes along{{"axis", std::int64_t{1}}};
  const auto sorted = w.b.emit_all(Opcode::sort, std::array{x}, along);
  for (const Value value : sorted) w.result(value);
  w.result(w.b.emit(Opcode::scatter_add, {x, sorted[1], w.b.mul(x, x)}, along));
  return std::move(w.indexed);
}

/// A fourth of the tokens is kept, by the order of noise; the others are a learnt token, put back in place.
IndexedCase masked_step() {
  constexpr std::int64_t kBatch = 3, kTokens = 13, kKept = 3, kWidth = 10;
  CaseBuilder c(9);
  Written w("masked step");
  w.indexed.tolerance = 1e-5;
  Builder& b = w.b;
  const Value tokens = w.input(c.tensor({kBatch, kTokens, kWidth}));
  const Value noise = w.input(eighths(c, {kBatch, kTokens}, DType::f32, false));
  const Value weight = w.input(c.tensor({kWidth, kWidth})), learnt = w.input(c.tensor({1, 1, kWidth}));
  const ir::Attributes along{{"axis", std::int64_t{1}}};
  const Value order = b.emit_all(Opcode::sort, std::array{noise}, along)[1];
  const Value back = b.emit_all(Opcode::sort, std::array{order}, along)[1];
  const Value kept = b.emit(Opcode::gather, {tokens, b.slice(order, 1, 0, kKept)}, along);
  const Value hidden = b.unary(Opcode::tanh, b.linear(kept, weight));
  const Value masked = b.broadcast(learnt, {kBatch, kTokens - kKept, kWidth});
  const Value all = b.emit(Opcode::gather, {b.concat(std::array{hidden, masked}, 1), back}, along);
  const Value missed = b.sub(b.mul(all, all), tokens);
  const Value loss = b.reshape(b.sum(b.mul(missed, missed), {0, 1, 2}), {});
  w.result(loss);
  for (const Value gradient : ir::differentiate(b, loss, std::array{tokens, weight, learnt}))
    w.result(gradient);
  return std::move(w.indexed);
}

}  // namespace

std::vector<IndexedCase> indexed_cases() {
  std::vector<IndexedCase> cases;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) cases.push_back(random_case(seed));
  cases.push_back(long_rows());
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) cases.push_back(skipped_rows(dtype));
  cases.push_back(table(DType::i32, false));
  cases.push_back(table(DType::i64, true));
  cases.push_back(masked_step());
  return cases;
}

std::string indexed_difference(const IndexedCase& indexed, const std::vector<Tensor>& results) {
  ir::EvalState state;
  const ir::Function& main = indexed.module.function("main");
  const std::vector<Tensor> expected = ir::evaluate(indexed.module, main, indexed.inputs, state);
  std::string differing;
  for (std::size_t r = 0; r < expected.size(); ++r) {
    const double error = scaled_error(expected[r], results[r], 0);
    if (!(error <= indexed.tolerance))
      differing += indexed.name + ", " + main.results[r].name + ": " + std::to_string(error) + "\n";
  }
  return differing;
}

}  // namespace rewire::testing
