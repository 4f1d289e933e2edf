// Norms after the sum, or after the branch:
//   postln    x' = LN(x + f(x))                the original transformer (Vaswani et al., 2017)
//   deepnorm  x' = LN(a x + f(x))              a = (2 N)^(1/4) with N blocks; DeepNet (Wang et al., 2022)
//   keel      x' = LN_2(L x + f(LN(x)))        L joins; Post-LayerNorm Is Back (Chen and Wei, 2026)
//   peri      x' = x + LN_2(f(LN(x)))          Peri-LN (Kim et al., 2025)
// postln and deepnorm move the block's own norm, so the branch reads x. keel and peri add a norm, LN_2. deepnorm also
// initialises the matrices as the paper does: Xavier normal, with gain (8 N)^(-1/4) for the matrices of values, of
// attention's result and of the MLP. norm=rms is RMSNorm everywhere instead of LN.
#include <cmath>
#include <rewire_plugin.hpp>
#include <string>
#include <vector>

namespace {

using namespace rewire::plugin;

constexpr rewire_parameter kParameters[] = {
    enum_parameter("kind", "postln", "postln|deepnorm|keel|peri",
                   "join; postln: LN(x + f(x)); deepnorm: LN(a x + f(x)) with DeepNet's a and "
                   "initialisation; keel: LN(L x + f(LN(x))); peri: x + LN(f(LN(x)))"),
    enum_parameter("norm", "layer", "layer|rms", "the norm that is moved or added: layer norm or RMS norm"),
    float_parameter("eps", "1e-6", "epsilon of that norm; gpt2's own is 1e-5", above(0)),
};

double shortcut_factor(const std::string& kind, const Join& join) {
  if (kind == "deepnorm") return std::pow(2.0 * static_cast<double>(join.block_count), 0.25);
  return kind == "keel" ? static_cast<double>(join.join_count) : 1;
}

/// A norm over the channels. Both values are empty if it has no weights; RMS norms have no bias.
struct Norm {
  bool is_rms = false;
  double epsilon = 0;
  Value weight, bias;

  /// Normalises over the channels, on whatever axis they are.
  Value of(const Join& join, const Value& x) const {
    const ChannelsLast moved(join, std::ssize(x.shape()));
    std::vector<Value> operands = {moved.there(x)};
    for (const Value& operand : {weight, bias})
      if (operand) operands.push_back(operand);
    return moved.back(emit(is_rms ? "rms_norm" : "layer_norm", operands, {{"epsilon", epsilon}}));
  }
};

/// Gives `norm` the weights of the branch's own norm.
void take_own(const Join& join, Norm& norm) {
  for (const Weight& weight : join.weights("norm")) {
    (weight.name.ends_with(".bias") ? norm.bias : norm.weight) = join.weight_value(weight.name);
  }
  const bool bare = !norm.weight && !norm.bias && join.has("norm_input");
  if (bare || (norm.weight && static_cast<bool>(norm.bias) != norm.is_rms)) return;
  throw Error(join.name + " has no " + (norm.is_rms ? "RMS norm" : "layer norm") +
              " to move after its sum; use the norm= that it has, or kind=keel or peri, which add one");
}

void add_new(const Join& join, Norm& norm) {
  const Ints channels = {join.stream.shape().at(static_cast<std::size_t>(join.channel_axis))};
  norm.weight = join.add_weight("norm_weight", channels, Init::ones(), Group::no_decay);
  if (!norm.is_rms) norm.bias = join.add_weight("norm_bias", channels, Init::zeros(), Group::no_decay);
}

void rewrite(const Rewrite& call) {
  const std::string kind = call.get_text("kind");
  const bool adds = kind == "keel" || kind == "peri";
  for (const Join& join : call.joins()) {
    Norm norm{call.get_text("norm") == "rms", call.get_float("eps"), {}, {}};
    if (adds) {
      add_new(join, norm);
    } else {
      take_own(join, norm);
      join.set_input(join.value("norm_input"));
    }
    if (kind == "peri") {
      join.change_branch(norm.of(join, join.branch_slot()));
      continue;
    }
    const double factor = shortcut_factor(kind, join);
    if (factor != 1) join.change_shortcut(factor * join.shortcut());
    join.change_sum(norm.of(join, join.sum()));
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
      const bool qkv = weight.role == "qkv", is_query_or_key = weight.role == "q" || weight.role == "k";
      fill(call, weight, data, qkv ? 3 : 1,
           qkv ? std::vector<double>{1, 1, gain} : std::vector<double>{is_query_or_key ? 1 : gain});
      call.write(weight, data);
    }
  }
}

}  // namespace

REWIRE_PLUGIN("postnorm", "1.0.0",
              "puts a norm after the sum or the branch: post-LN, DeepNorm, Keel or Peri-LN", kParameters,
              rewrite, initialise)
