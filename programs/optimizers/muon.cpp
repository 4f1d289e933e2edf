// Muon (Jordan et al., 2024, https://kellerjordan.github.io/posts/muon; PyTorch's form) for the matrices
// between the first and the last layer, and AdamW for all other weights:
//   m' = mu m + (1 - mu) g,  u = nesterov ? mu m' + (1 - mu) g : m',  x = u / max(|u|, 1e-7)
//   ns_steps times  x = a x + (b x x^T + c (x x^T)^2) x,  (a, b, c) = (3.4445, -4.7750, 2.0315)
//   w' = (1 - lr wd) w - lr s x
// x approaches the polar factor of u. s is sqrt(max(1, rows / columns)) with `original`, and
// 0.2 sqrt(max(rows, columns)) with `match_rms_adamw` (Liu et al., Muon is Scalable for LLM Training, 2025).
// With split_qkv, the thirds of a weight of the role qkv [3 n, n], which are three matrices, have each an x of their own.
// A weight of more than two axes counts as a matrix of its first axis by all others. Everything is in f32;
// the public code rounds x to bf16.
#include <algorithm>
#include <array>
#include <cmath>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "programs/adamw_update.h"

namespace rewire::programs {

using ir::Builder;
using ir::Opcode;
using ir::Value;

namespace {

constexpr double kCube = 3.4445, kGram = -4.7750, kSquare = 2.0315;  // a, b, c
constexpr double kLeastNorm = 1e-7;

ir::Shape matrix_shape(const ir::TensorType& weight) {
  return {weight.shape.at(0), weight.elements() / weight.shape.at(0)};
}

/// Returns whether Muon updates the weight. It does not update norms, biases, tokens and positions (they do
/// not decay), embeddings, weights before the first block, the head, or what strategies add to joins. If a module has no
/// layer numbers, its patch embeddings count as weights before the first block.
bool is_hidden_matrix(const ir::Parameter& weight) {
  constexpr std::array<std::string_view, 4> kOthers = {"embedding", "head", "join", "pos_embed"};
  if (weight.type.rank() < 2 || !weight.decay || std::ranges::find(kOthers, weight.role) != kOthers.end())
    return false;
  if (weight.layer == 0 || (weight.layer < 0 && weight.role.starts_with("patch_embed"))) return false;
  return std::ranges::min(matrix_shape(weight.type)) > 1;
}

/// Returns an approximation of the polar factor of u [rows, columns]. Its products are of the smaller side.
Value orthogonalised(Builder& b, Value u, std::int64_t steps) {
  const bool tall = b.shape(u)[0] > b.shape(u)[1];
  const Value norm = norm_of(b, u);
  Value x = b.div(u, b.binary(Opcode::maximum, norm, b.constant_like(norm, kLeastNorm)));
  for (std::int64_t step = 0; step < steps; ++step) {
    const Value gram = b.matmul(x, x, tall, !tall);
    const Value polynomial = b.add(b.mul(gram, kGram), b.mul(b.matmul(gram, gram), kSquare));
    const Value higher = tall ? b.matmul(x, polynomial) : b.matmul(polynomial, x);
    x = b.add(b.mul(x, kCube), higher);
  }
  return x;
}

/// Returns the factors of u's equal parts along its rows, one below the other.
Value orthogonalised_parts(Builder& b, Value u, std::int64_t parts, std::int64_t steps) {
  if (parts == 1) return orthogonalised(b, u, steps);
  const std::int64_t rows = b.shape(u)[0] / parts;
  std::vector<Value> all;
  for (std::int64_t part = 0; part < parts; ++part)
    all.push_back(orthogonalised(b, b.slice(u, 0, part * rows, (part + 1) * rows), steps));
  return b.concat(all, 0);
}

class Muon : public Optimizer {
 public:
  explicit Muon(const ir::Attributes& values) : values_(values) {}

  std::vector<StateSpec> states(const ir::Parameter& weight) const override {
    if (!is_hidden_matrix(weight)) return AdamwUpdate::states(weight.type);
    return {{"momentum", weight.type}};
  }

  void begin(Builder& b, const std::vector<Trainable>& weights, const StepScalars& step) override {
    scalars_.begin(step);
    for (const Trainable& weight : weights) {
      const ir::Parameter& parameter = parameter_of(b, weight);
      if (!is_hidden_matrix(parameter)) {
        adamw_.prepare(b, weight, adamw_settings(parameter));
        continue;
      }
      const WeightSettings s = settings_of(parameter, values_);
      scalars_.rate(b, of_shape(s, parameter));
      if (s.decays()) scalars_.kept(b, s);
    }
  }

  Updated update(Builder& b, const Trainable& weight, const std::vector<Value>& states) override {
    const ir::Parameter& parameter = parameter_of(b, weight);
    if (!is_hidden_matrix(parameter)) return adamw_.update(b, weight, adamw_settings(parameter), states);
    const double mu = values_.get_double("momentum");
    const Value g = weight.gradient;
    const auto mixed = [&](Value mean) { return b.add(b.mul(mean, mu), b.mul(g, 1 - mu)); };
    const Value m = mixed(states[0]);
    const Value u = values_.get_bool("nesterov") ? mixed(m) : m;
    const Value x = orthogonalised_parts(b, b.reshape(u, matrix_shape(parameter.type)), parts_of(parameter),
                                         values_.get_int("ns_steps"));
    const WeightSettings s = settings_of(parameter, values_);
    const Value kept = s.decays() ? b.mul(weight.value, scalars_.kept(b, s)) : weight.value;
    const Value rate = scalars_.rate(b, of_shape(s, parameter));
    return {b.sub(kept, b.mul(b.reshape(x, parameter.type.shape), rate)), {m}};
  }

 private:
  AdamwSettings adamw_settings(const ir::Parameter& parameter) const {
    WeightSettings s = settings_of(parameter, values_);
    s.lr_scale *= values_.get_double("adamw_lr_scale");
    return {s, betas_of(parameter, values_), values_.get_double("eps")};
  }

  /// Returns how many matrices the weight is.
  std::int64_t parts_of(const ir::Parameter& parameter) const {
    const ir::Shape shape = matrix_shape(parameter.type);
    if (!values_.get_bool("split_qkv") || parameter.role != "qkv") return 1;
    if (shape[0] != 3 * shape[1])
      user_error("optimizer.split_qkv: '{}' is {}, not three square matrices: set it to false",
                 parameter.name, to_string(parameter.type));
    return 3;
  }

  /// Returns the settings with the learning rate scaled by the matrix's shape.
  WeightSettings of_shape(WeightSettings s, const ir::Parameter& parameter) const {
    const ir::Shape shape = matrix_shape(parameter.type);
    const auto rows = static_cast<double>(shape[0] / parts_of(parameter)),
               columns = static_cast<double>(shape[1]);
    s.lr_scale *= values_.get_string("adjust_lr_fn") == "original" ? std::sqrt(std::max(1.0, rows / columns))
                                                                   : 0.2 * std::sqrt(std::max(rows, columns));
    return s;
  }

  const ir::Attributes values_;
  SharedScalars scalars_;
  AdamwUpdate adamw_{scalars_};
};

}  // namespace

extern const OptimizerRow kMuon{
    "muon", "orthonormal steps for the matrices between first and last layer, AdamW for the other weights",
    with_common_parameters(
        {ir::float_parameter("momentum", 0.95, "decay of a matrix's momentum").at_least(0).below(1),
         ir::bool_parameter("nesterov", true, "use Nesterov momentum"),
         ir::int_parameter("ns_steps", 5, "Newton-Schulz iterations towards an orthonormal matrix")
             .at_least(1)
             .at_most(99),
         ir::enum_parameter("adjust_lr_fn", {"original", "match_rms_adamw"},
                            "learning rate by shape; original: times sqrt(max(1, rows / columns)); "
                            "match_rms_adamw: times 0.2 sqrt(max(rows, columns))"),
         ir::bool_parameter(
             "split_qkv", false,
             "take queries, keys and values of a fused matrix (the role qkv) as three matrices"),
         ir::float_parameter("adamw_lr_scale", 1,
                             "learning rate of the weights that AdamW updates, divided by lr")
             .above(0),
         ir::float_parameter("beta1", 0.9, "AdamW's decay of the gradient's running mean")
             .at_least(0)
             .below(1),
         ir::float_parameter("beta2", 0.999, "AdamW's decay of the squared gradient's running mean")
             .at_least(0)
             .below(1),
         ir::float_parameter("eps", 1e-8, "epsilon added to AdamW's square root").at_least(0)},
        1e-3, 0.1),
    [](const ir::Attributes& values) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Muon>(values);
    }};

}  // namespace rewire::programs
