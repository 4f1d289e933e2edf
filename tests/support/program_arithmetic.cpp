// Steps of random programs: pointwise ops and reductions.
#include <algorithm>
#include <cmath>

#include "ir/opcodes.h"
#include "tests/support/program_writer.h"

namespace rewire::testing {
namespace {

using namespace rewire::ir;

/// x² + 0.1: away from zero, and smooth.
Value above_zero(ProgramWriter& w, const Node& x) {
  return w.build.add(w.build.mul(x.value, x.value), 0.1);
}

void unary(ProgramWriter& w) {
  const Node x = w.pick();
  const Opcode code =
      w.random.pick({Opcode::neg, Opcode::abs, Opcode::exp, Opcode::sin, Opcode::cos, Opcode::tanh,
                     Opcode::erf, Opcode::sigmoid, Opcode::stop_gradient, Opcode::silu});
  if (code == Opcode::abs && !w.may_bend(x)) return;
  const double limit = code == Opcode::exp ? 2 : 8;
  const Node tamed = w.tame(x, limit);
  double bound = tamed.bound;
  if (code == Opcode::exp) bound = std::exp(bound);
  if (code == Opcode::sin || code == Opcode::cos || code == Opcode::tanh || code == Opcode::erf ||
      code == Opcode::sigmoid) {
    bound = 1;
  }
  const bool exact =
      tamed.exact && (code == Opcode::neg || code == Opcode::abs || code == Opcode::stop_gradient);
  w.add(w.build.unary(code, tamed.value), bound, exact);
}

void root_or_logarithm(ProgramWriter& w) {
  const Node x = w.tame(w.pick(), 8);
  const Value base = above_zero(w, x);
  switch (w.random.integer(0, 4)) {
    case 0:
      return w.add(w.build.unary(Opcode::log, base), 5);
    case 1:
      return w.add(w.build.unary(Opcode::sqrt, base), x.bound + 1);
    case 2:
      return w.add(w.build.unary(Opcode::rsqrt, base), 3.2);
    case 3:
      return w.add(w.build.div(w.build.constant_like(base, 1.0), base), 10);
    default:
      return w.add(w.build.binary(Opcode::pow, base,
                                  w.build.constant_like(base, w.random.pick({-1.0, -0.5, 0.5, 1.0, 1.5}))),
                   40);
  }
}

void binary(ProgramWriter& w) {
  const Node x = w.tame(w.pick(), 32);
  const Node y = w.tame(w.partner(x), 32);
  const std::int64_t kind = w.random.integer(0, 5);
  if (kind <= 1) return w.add(w.build.add(x.value, y.value), x.bound + y.bound);
  if (kind == 2) return w.add(w.build.sub(x.value, y.value), x.bound + y.bound);
  if (kind == 3) return w.add(w.build.mul(x.value, y.value), x.bound * y.bound);
  if (kind == 4) {
    const Value divisor = w.build.add(w.build.mul(y.value, y.value), 0.5);
    return w.add(w.build.div(x.value, divisor), 2 * x.bound);
  }
  if (!w.may_bend(x) || !w.may_bend(y)) return;
  const Opcode code = w.random.pick({Opcode::maximum, Opcode::minimum});
  w.add(w.build.binary(code, x.value, y.value), std::max(x.bound, y.bound), x.exact && y.exact);
}

void with_constant(ProgramWriter& w) {
  const Node x = w.tame(w.pick(), 16);
  const double a = w.random.pick({0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -0.7});
  switch (w.random.integer(0, 3)) {
    case 0:
      return w.add(w.build.add(x.value, a), x.bound + 3);
    case 1:
      return w.add(w.build.mul(x.value, a), 3 * x.bound);
    case 2:
      return w.add(w.build.sub(w.build.constant_like(x.value, a), x.value), x.bound + 3);
    default:
      return w.add(w.build.div(x.value, a == 0.0 ? 4.0 : a), 2 * x.bound);
  }
}

/// select by a comparison of exact numbers, with and, or, not and isfinite on the way.
void choice(ProgramWriter& w) {
  const Node x = w.pick_exact();
  const Node y = w.pick();
  Value condition = w.build.compare(w.random.pick({"lt", "le", "gt", "ge", "eq", "ne"}), x.value,
                                    w.build.constant_like(x.value, w.random.real(-1, 1)));
  if (w.random.chance(0.3)) condition = w.build.unary(Opcode::logical_not, condition);
  if (w.random.chance(0.3)) {
    const Value other = w.build.compare("lt", x.value, w.build.constant_like(x.value, 0.25));
    condition = w.build.binary(w.random.pick({Opcode::logical_and, Opcode::logical_or}), condition, other);
  }
  if (w.random.chance(0.2)) {
    condition = w.build.binary(Opcode::logical_and, condition, w.build.unary(Opcode::isfinite, x.value));
  }
  if (w.shape(x) == w.shape(y)) {
    return w.add(w.build.select(condition, x.value, y.value), std::max(x.bound, y.bound), x.exact && y.exact);
  }
  w.add(w.build.select(condition, x.value, w.build.constant_like(x.value, 0.0)), x.bound, x.exact);
}

/// floor and casts, on exact numbers.
void rounding(ProgramWriter& w) {
  const Node x = w.pick_exact();
  if (x.bound > 1000) return;
  switch (w.random.integer(0, 2)) {
    case 0:
      return w.add(w.build.unary(Opcode::floor, x.value), x.bound + 1, true);
    case 1:
      return w.add(w.build.cast(w.build.cast(x.value, DType::i32), DType::f32), x.bound, true);
    default: {
      const Value truth = w.build.cast(w.build.unary(Opcode::floor, x.value), DType::i1);
      return w.add(w.build.cast(truth, DType::f32), 1, true);
    }
  }
}

Ints some_axes(ProgramWriter& w, std::size_t rank) {
  if (w.random.chance(0.4)) return {-1};
  Ints axes = w.random.permutation(rank);
  axes.resize(static_cast<std::size_t>(w.random.integer(1, static_cast<std::int64_t>(rank))));
  return axes;
}

/// A reduction that may meet its operand again: x - mean, x / sum, x · max, …
void reduction(ProgramWriter& w) {
  const Node x = w.tame(w.pick(1), 16);
  const Ints axes = some_axes(w, w.shape(x).size());
  const bool maximum = w.may_bend(x) && w.random.chance(0.3);
  Value y = maximum ? w.build.max(x.value, axes) : w.build.mean(x.value, axes);
  if (!maximum && w.random.chance(0.2)) y = w.build.mean(w.build.mul(x.value, x.value), axes);
  const double bound = maximum ? x.bound : x.bound * x.bound;
  if (w.random.chance(0.4)) return w.add(y, bound);
  switch (w.random.integer(0, 2)) {
    case 0:
      return w.add(w.build.sub(x.value, y), x.bound + bound);
    case 1:
      return w.add(w.build.mul(x.value, y), x.bound * bound);
    default:
      return w.add(w.build.div(x.value, w.build.add(w.build.mul(y, y), 0.5)), 2 * x.bound);
  }
}

/// A norm in parts, over rows or columns: two dependent reductions with the operand used three times.
void norm_in_parts(ProgramWriter& w) {
  const Node x = w.tame(w.pick(2), 8);
  const Ints axes = w.random.chance(0.6)   ? Ints{-1}
                    : w.random.chance(0.5) ? Ints{0}
                                           : some_axes(w, w.shape(x).size());
  const Value centered = w.random.chance(0.7) ? w.build.sub(x.value, w.build.mean(x.value, axes)) : x.value;
  const Value variance = w.build.mean(w.build.mul(centered, centered), axes);
  const Value rstd = w.build.unary(Opcode::rsqrt, w.build.add(variance, 0.05));
  Value y = w.build.mul(centered, rstd);
  if (w.random.chance(0.5)) y = w.build.mul(y, w.parameter({w.shape(x).back()}, 0.5, 1.5).value);
  w.add(y, 4);
}

/// f less its part along x, row by row: two row sums, both operands used twice.
void projection(ProgramWriter& w) {
  const Node x = w.tame(w.pick(2), 4);
  const Node f = w.tame(w.partner(x), 4);
  const Value along = w.build.sum(w.build.mul(x.value, f.value), {-1});
  const Value square = w.build.add(w.build.sum(w.build.mul(x.value, x.value), {-1}), 1.0);
  const Value part = w.build.mul(x.value, w.build.div(along, square));
  w.add(w.build.add(x.value, w.build.sub(f.value, part)), x.bound + 2 * f.bound);
}

void indices_of_exact(ProgramWriter& w) {
  const Node x = w.pick_exact();
  const std::int64_t axis = w.random.axis(w.shape(x).size());
  if (w.random.chance(0.5)) {
    const Value index = w.build.emit(Opcode::argmax, {x.value}, {{"axis", axis}});
    return w.add(w.build.cast(index, DType::f32), 100, true);
  }
  const Value operands[] = {x.value};
  const std::vector<Value> sorted =
      w.build.emit_all(Opcode::sort, operands, {{"axis", axis}, {"descending", w.random.chance(0.5)}});
  w.add(sorted[0], x.bound, true);
  if (w.random.chance(0.5)) w.add(w.build.cast(sorted[1], DType::f32), 100, true);
}

}  // namespace

std::span<const ProgramStep> arithmetic_steps() {
  static constexpr ProgramStep kSteps[] = {
      {unary, 6},    {root_or_logarithm, 3}, {binary, 10},       {with_constant, 4}, {choice, 4},
      {rounding, 1}, {reduction, 6},         {norm_in_parts, 5}, {projection, 3},    {indices_of_exact, 2}};
  return kSteps;
}

}  // namespace rewire::testing
