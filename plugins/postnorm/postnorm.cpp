// Norms after the sum:
//   postln    x' = LN(x + f(x))                the original transformer (Vaswani et al., 2017)
//   deepnorm  x' = LN(a x + f(x))              a = (2 N)^(1/4) with N blocks; DeepNet (Wang et al., 2022)
//   keel      x' = LN_2(L x + f(LN(x)))        L joins; Post-LayerNorm Is Back (Chen and Wei, 2026)
// postln and deepnorm move the block's own norm, so the branch reads x. keel adds a new norm after the sum.
// deepnorm also initialises the matrices as the paper does: Xavier normal, with gain (8 N)^(-1/4) for the
// matrices of values, of attention's result and of the MLP.
#include <cmath>
#include <rewire_plugin.hpp>
#include <string>
#include <vector>

namespace {

using namespace rewire::plugin;

constexpr double kEpsilon = 1e-6;  // the same as in the models' norms

constexpr rewire_parameter kParameters[] = {
    enum_parameter("kind", "postln", "postln|deepnorm|keel",
                   "join; postln: LN(x + f(x)); deepnorm: LN(a x + f(x)) with DeepNet's a and "
                   "initialisation; keel: LN(L x + f(LN(x)))"),
};

double shortcut_factor(const std::string& kind, const Join& join) {
  if (kind == "deepnorm") return std::pow(2.0 * static_cast<double>(join.block_count), 0.25);
  return kind == "keel" ? static_cast<double>(join.join_count) : 1;
}

/// Weight and bias of a norm; both values are empty if the norm has no weights.
struct Norm {
  Value weight, bias;
};

Norm own_norm(const Join& join) {
  Norm norm;
  for (const Weight& weight : join.weights("norm")) {
    (weight.name.ends_with(".bias") ? norm.bias : norm.weight) = join.weight_value(weight.name);
  }
  const bool bare = !norm.weight && !norm.bias && join.has("norm_input");
  if (!bare && (!norm.weight || !norm.bias)) {
    throw Error(join.name + " has no layer norm to move after its sum; use kind=keel, which adds one");
  }
  return norm;
}

Norm new_norm(const Join& join) {
  const Ints channels = {join.stream.shape().at(static_cast<std::size_t>(join.channel_axis))};
  return {join.add_weight("norm_weight", channels, Init::ones(), Group::no_decay),
          join.add_weight("norm_bias", channels, Init::zeros(), Group::no_decay)};
}

/// Layer norm over the channels, on whatever axis they are.
Value layer_norm(const Join& join, const Value& x, const Norm& norm) {
  const std::int64_t rank = std::ssize(x.shape()), channel = join.channel_axis;
  Ints there, back;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    if (axis != channel) there.push_back(axis);
    back.push_back(axis == channel ? rank - 1 : axis - (axis > channel ? 1 : 0));
  }
  there.push_back(channel);
  const bool moves = channel != rank - 1;
  std::vector<Value> operands = {moves ? transpose(x, there) : x};
  if (norm.weight) operands.insert(operands.end(), {norm.weight, norm.bias});
  const Value y = emit("layer_norm", operands, {{"epsilon", kEpsilon}});
  return moves ? transpose(y, back) : y;
}

void rewrite(const Rewrite& call) {
  const std::string kind = call.get_text("kind");
  for (const Join& join : call.joins()) {
    const Norm norm = kind == "keel" ? new_norm(join) : own_norm(join);
    if (kind != "keel") join.set_input(join.value("norm_input"));
    const double factor = shortcut_factor(kind, join);
    if (factor != 1) join.change_shortcut(factor * join.shortcut());
    join.change_sum(layer_norm(join, join.sum(), norm));
  }
}

/// Fills a weight [out, in, ...] with Xavier normal numbers. Its rows form `matrices` equal matrices, each
/// with its own fans and gain.
void fill(const Initialise& call, const Weight& weight, std::vector<double>& data, std::size_t matrices,
          const std::vector<double>& gains) {
  const std::size_t size = data.size() / matrices;
  const auto rows = static_cast<std::size_t>(weight.type.shape[0]) / matrices;
  const auto in = static_cast<std::size_t>(weight.type.shape[1]);
  const double field = static_cast<double>(size) / static_cast<double>(rows * in);  // kernel area
  const double std = std::sqrt(2 / (field * static_cast<double>(rows + in)));
  const std::vector<double> normal = call.normal(weight.name, data.size());
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = gains[i / size] * std * normal[i];
}

void initialise(const Initialise& call) {
  if (call.get_text("kind") != "deepnorm") return;
  for (const Join& join : call.joins()) {
    const double gain = std::pow(8.0 * static_cast<double>(join.block_count), -0.25);
    for (const Weight& weight : join.weights()) {
      if (weight.type.shape.size() < 2 || weight.role == "norm" || weight.role == "join") continue;
      std::vector<double> data(weight.elements());
      const bool qkv = weight.role == "qkv";
      fill(call, weight, data, qkv ? 3 : 1,
           qkv ? std::vector<double>{1, 1, gain} : std::vector<double>{gain});
      call.write(weight, data);
    }
  }
}

}  // namespace

REWIRE_PLUGIN("postnorm", "1.0.0", "puts the norm after the sum: post-LN, DeepNorm or Keel", kParameters,
              rewrite, initialise)
