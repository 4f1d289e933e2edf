// SOAP (Vyas et al., SOAP: Improving and Stabilizing Shampoo using Adam, ICLR 2025, Algorithm 3, and its
// authors' code): Adam in the eigenbases of Shampoo's preconditioners. G_i is the gradient as a matrix of
// its axis i by all others. Q_i is the basis of axis i. t counts the updates before this one, and the first
// update (t = 0) moves nothing. x' is x in the bases:
//   g' = g in the bases,  m = b1 m + (1 - b1) g',  v = b2 v + (1 - b2) g'^2
//   w = (1 - lr wd)(w - lr sqrt(1 - b2^t) / (1 - b1^t) (m / (sqrt(v) + eps) back from the bases))
//   L_i = s L_i + (1 - s) G_i G_i^T
// After the first update of a phase (`refresh_first`), if there is no basis
// yet: Q_i = eigenvectors of L_i. After every precondition_frequency-th
// update since the run's first (`refresh`), one step of a power iteration:
//   the columns of Q_i, and axis i of v, go in the order of diag(Q_i^T L_i Q_i), the largest first
//   Q_i = qr(L_i Q_i);  m goes from the old bases to the new ones
// An axis of one element, or of more than max_precond_dim, has no basis. A weight of one axis has none
// either, unless precondition_1d is set. Along an axis without basis, SOAP is plain Adam.
#include <algorithm>
#include <string>
#include <tuple>

#include "ir/opcodes.h"
#include "programs/optimizer.h"
#include "programs/sums.h"

namespace rewire::programs {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

namespace {

/// One value per axis of a weight; it is empty if the axis has no basis.
using OfAxes = std::vector<Value>;

/// Returns x in the bases, or x converted back from them if `back`.
Value rotated(Builder& b, Value x, const OfAxes& bases, bool back) {
  if (std::ranges::none_of(bases, [](Value basis) { return bool(basis); })) return x;
  const ir::Shape shape = b.shape(x);
  // Each product handles one axis: it moves the first axis to the end.
  for (std::size_t axis = 0; axis < bases.size(); ++axis) {
    x = b.reshape(x, {shape[axis], b.type(x).elements() / shape[axis]});
    x = bases[axis] ? b.matmul(x, bases[axis], true, back) : b.transpose(x, {1, 0});
  }
  return b.reshape(x, shape);
}

/// Returns G G^T, with G = x as a matrix of this axis by all others.
Value gram_of(Builder& b, Value x, std::size_t axis) {
  const ir::Shape& shape = b.shape(x);
  std::int64_t before = 1, extent = shape[axis];
  for (std::size_t i = 0; i < axis; ++i) before *= shape[i];
  const std::int64_t behind = b.type(x).elements() / before / extent;
  if (behind == 1) {
    x = b.reshape(x, {before, extent});
    return b.matmul(x, x, true, false);
  }
  if (before > 1) x = b.transpose(b.reshape(x, {before, extent, behind}), {1, 0, 2});
  x = b.reshape(x, {extent, before * behind});
  return b.matmul(x, x, false, true);
}

class Soap : public Optimizer {
 public:
  explicit Soap(const ir::Attributes& values) : values_(values) {}

  std::vector<StateSpec> states(const ir::Parameter& weight) const override {
    std::vector<StateSpec> states = {{"exp_avg", weight.type}, {"exp_avg_sq", weight.type}};
    for (const std::size_t axis : axes_with_bases(weight.type)) {
      const std::int64_t extent = weight.type.shape[axis];
      for (const char* role : {"gram", "basis"})
        states.push_back({role + std::to_string(axis), {weight.type.dtype, {extent, extent}}});
    }
    return states;
  }

  void begin(Builder& b, const std::vector<Trainable>& weights, const StepScalars& step) override {
    scalars_.begin(step);
    for (const Trainable& weight : weights) shared(b, weight);
  }

  Updated update(Builder& b, const Trainable& weight, const std::vector<Value>& states) override {
    const Betas betas = betas_of(parameter_of(b, weight), values_);
    const Shared& shares = shared(b, weight);
    const OfAxes bases = of_axes(b, weight, states, 1);
    const Value g = rotated(b, weight.gradient, bases, false);
    const Value m = b.add(b.mul(states[0], betas.beta1), b.mul(g, shares.of_mean));
    const Value v = b.add(b.mul(states[1], betas.beta2), b.mul(b.mul(g, g), shares.of_square));
    const Value step = b.div(m, b.add(b.unary(Opcode::sqrt, v), values_.get_double("eps")));
    const Value moved = b.sub(weight.value, b.mul(rotated(b, step, bases, true), shares.rate));
    Updated updated = {shares.kept ? b.mul(moved, shares.kept) : moved, {m, v}};
    const double given = values_.get_double("shampoo_beta"), beta = given < 0 ? betas.beta2 : given;
    for (const std::size_t axis : axes_with_bases(b.type(weight.value))) {
      const Value gram = states[updated.states.size()];
      updated.states.push_back(b.add(b.mul(gram, beta), b.mul(gram_of(b, weight.gradient, axis), 1 - beta)));
      updated.states.push_back(bases[axis]);
    }
    return updated;
  }

  std::int64_t period() const override { return values_.get_int("precondition_frequency"); }

  /// Emits the decompositions of all weights one after the other, so that threads can share them.
  std::vector<std::vector<Value>> refresh(Builder& b, const std::vector<Trainable>& weights,
                                          const std::vector<std::vector<Value>>& states,
                                          bool first) override {
    std::vector<std::vector<Value>> next = states;
    std::vector<OfAxes> bases, grams;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      grams.push_back(of_axes(b, weights[i], states[i], 0));
      bases.push_back(of_axes(b, weights[i], states[i], 1));
      b.set_location("refresh." + weights[i].name);
      if (!first) next[i][0] = rotated(b, states[i][0], bases[i], true);
    }
    // Calls visit(weight, axis, gram, basis) for all bases.
    const auto each_basis = [&](const auto& visit) {
      for (std::size_t i = 0; i < weights.size(); ++i) {
        b.set_location("refresh." + weights[i].name);
        for (std::size_t axis = 0; axis < bases[i].size(); ++axis) {
          if (bases[i][axis]) visit(i, axis, grams[i][axis], bases[i][axis]);
        }
      }
    };
    std::vector<OfAxes> found = bases;
    if (first) {
      each_basis([&](std::size_t i, std::size_t axis, Value gram, Value) {
        found[i][axis] = b.emit(Opcode::eigh, {gram});
      });
      each_basis([&](std::size_t i, std::size_t axis, Value, Value basis) {
        const Value size = sum_all(b, b.mul(basis, basis));
        const Value is_none = b.compare("eq", size, b.constant_like(size, 0));
        found[i][axis] = b.select(is_none, found[i][axis], basis);
      });
    } else {
      each_basis([&](std::size_t i, std::size_t axis, Value gram, Value basis) {
        found[i][axis] = sorted_product(b, gram, basis, axis, next[i][1]);
      });
      each_basis([&](std::size_t i, std::size_t axis, Value, Value) {
        found[i][axis] = b.emit(Opcode::qr, {found[i][axis]});
      });
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      b.set_location("refresh." + weights[i].name);
      if (!first) next[i][0] = rotated(b, next[i][0], found[i], false);
      std::size_t at = 3;
      for (const Value basis : found[i]) {
        if (!basis) continue;
        next[i][at] = basis;
        at += 2;
      }
    }
    return next;
  }

 private:
  struct Shared {
    Value rate, of_mean, of_square, kept;  // the last is empty if nothing decays
  };

  std::vector<std::size_t> axes_with_bases(const ir::TensorType& weight) const {
    std::vector<std::size_t> axes;
    if (weight.rank() == 1 && !values_.get_bool("precondition_1d")) return axes;
    for (std::size_t axis = 0; axis < weight.shape.size(); ++axis) {
      if (weight.shape[axis] > 1 && weight.shape[axis] <= values_.get_int("max_precond_dim"))
        axes.push_back(axis);
    }
    return axes;
  }

  /// Returns the grams (which = 0) or the bases (which = 1) among the states of a weight.
  OfAxes of_axes(Builder& b, const Trainable& weight, const std::vector<Value>& states,
                 std::size_t which) const {
    const ir::TensorType& type = b.type(weight.value);
    OfAxes found(type.shape.size());
    std::size_t at = 2 + which;
    for (const std::size_t axis : axes_with_bases(type)) {
      found[axis] = states[at];
      at += 2;
    }
    return found;
  }

  /// Returns L Q with its columns in the order of diag(Q^T L Q). Puts axis `axis` of v in the same order.
  static Value sorted_product(Builder& b, Value gram, Value basis, std::size_t axis, Value& v) {
    const Value product = b.matmul(gram, basis);
    const Value sizes = b.reshape(b.sum(b.mul(basis, product), {0}), {b.shape(gram)[0]});
    const Value order = b.emit_all(Opcode::sort, std::vector<Value>{sizes},
                                   {{"axis", std::int64_t{0}}, {"descending", true}})[1];
    v = b.emit(Opcode::gather, {v, order}, {{"axis", static_cast<std::int64_t>(axis)}});
    return b.emit(Opcode::gather, {product, order}, {{"axis", std::int64_t{1}}});
  }

  const Shared& shared(Builder& b, const Trainable& weight) {
    const ir::Parameter& parameter = parameter_of(b, weight);
    const WeightSettings s = settings_of(parameter, values_);
    const Betas betas = betas_of(parameter, values_);
    const Value updates = scalars_.updates(weight);
    Shared& found = shared_[{updates.id, s, betas}];
    if (found.rate) return found;
    const Value t = b.cast(updates, DType::f64), one = b.constant_like(t, 1), zero = b.constant_like(t, 0);
    const Value is_first = b.compare("eq", t, zero);
    const auto from_second = [&](Value first, Value then) {
      return b.cast(b.select(is_first, first, then), DType::f32);
    };
    Value rate = scalars_.exact_rate(b, s);
    if (values_.get_bool("correct_bias")) {
      const Value counted = b.binary(Opcode::maximum, t, one);
      const auto correction = [&](double beta) {
        return b.sub(one, b.binary(Opcode::pow, b.constant_like(t, beta), counted));
      };
      rate = b.mul(rate, b.div(b.unary(Opcode::sqrt, correction(betas.beta2)), correction(betas.beta1)));
    }
    found.rate = from_second(zero, rate);
    found.of_mean = from_second(zero, b.constant_like(t, 1 - betas.beta1));
    found.of_square = from_second(zero, b.constant_like(t, 1 - betas.beta2));
    if (s.decays()) found.kept = from_second(one, b.cast(scalars_.kept(b, s), DType::f64));
    return found;
  }

  const ir::Attributes values_;
  SharedScalars scalars_;
  std::map<std::tuple<std::int32_t, WeightSettings, Betas>, Shared> shared_;
};

}  // namespace

extern const OptimizerRow kSoap{
    "soap", "Adam in the eigenbases of Shampoo's preconditioners",
    with_common_parameters(
        {ir::float_parameter("beta1", 0.95, "decay of the gradient's running mean").at_least(0).below(1),
         ir::float_parameter("beta2", 0.95, "decay of the squared gradient's running mean")
             .at_least(0)
             .below(1),
         ir::float_parameter("shampoo_beta", -1, "decay of the preconditioners; below 0: beta2")
             .at_least(-1)
             .below(1),
         ir::float_parameter("eps", 1e-8, "epsilon added to the square root").at_least(0),
         ir::int_parameter("precondition_frequency", 10, "updates between two refreshes of the eigenbases")
             .at_least(1)
             .at_most(1e9),
         ir::int_parameter("max_precond_dim", 10000, "longest axis that gets an eigenbasis")
             .at_least(1)
             .at_most(32768),
         ir::bool_parameter("precondition_1d", false, "compute eigenbases for weights of one axis too"),
         ir::bool_parameter("correct_bias", true, "correct the bias of the running means, as Adam does")},
        3e-3, 0.01),
    [](const ir::Attributes& values) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Soap>(values);
    }};

}  // namespace rewire::programs
