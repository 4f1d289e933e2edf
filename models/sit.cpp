// The scalable interpolant transformer (Ma et al., SiT, ECCV 2024). It is DiT's network (Peebles and Xie,
// ICCV 2023), with the parameter names and initialisation of their authors' code:
//   c = MLP(sinusoids of time) + table[label]
//   in each block: (s1, a1, g1, s2, a2, g2) = W silu(c) + b, which starts at 0
//   x = patches W^T + b + pos;  x = x + g1 attn(LN(x) (1 + a1) + s1);  x = x + g2 mlp(LN(x) (1 + a2) + s2)
//   velocity = the patches of W (LN(x) (1 + a) + s) + b, each with its pixels (p, q, c)
// Zhang et al. (2025), Residual Connections Harm Generative Representation Learning, add skips: a block of
// the second half begins with x = x + W_d u + b_d. u is the output of the first-half block that is as far
// from the middle.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "models/model.h"
#include "models/parameters.h"

namespace rewire::models {

extern const Family kSit;

namespace {

using ir::Builder;
using ir::InitKind;
using ir::Opcode;
using ir::Value;

constexpr std::int64_t kFrequencies = 128;  // of the time; each gives a cosine and a sine
constexpr double kLongestPeriod = 10000;
constexpr NormOptions kPlainNorm{.epsilon = 1e-6, .affine = false};
const ir::Init kEmbeddingInit{InitKind::normal, 0.02};

struct Interpolant {
  std::int64_t image, channels, patch, dim, depth, heads, classes, units;
  bool has_null_class, learns_sigma, unet;

  std::int64_t tokens() const { return image / patch * (image / patch); }
  /// Returns the number of label rows. With a null class, the
  /// last row is what the network sees for a dropped label.
  std::int64_t rows() const { return classes + (has_null_class ? 1 : 0); }
  std::int64_t outputs() const { return channels * (learns_sigma ? 2 : 1); }
};

Interpolant settings_of_sit(const ir::Attributes& options) {
  const auto count = [&](std::string_view name) { return options.get_int(name); };
  const double ratio = options.get_double("mlp_ratio");
  Interpolant s{.image = count("image"),
                .channels = count("channels"),
                .patch = count("patch"),
                .dim = count("dim"),
                .depth = count("depth"),
                .heads = count("heads"),
                .classes = count("classes"),
                .units = static_cast<std::int64_t>(static_cast<double>(count("dim")) * ratio),
                .has_null_class = options.get_bool("null_class"),
                .learns_sigma = options.get_bool("learn_sigma"),
                .unet = options.get_string("skips") == "unet"};
  if (s.dim % s.heads != 0) {
    user_error(
        "model.dim={} is not a multiple of model.heads={}; set model.dim to heads times a head's width",
        s.dim, s.heads);
  }
  if (s.dim % 4 != 0)
    user_error("model.dim={} is not a multiple of 4, as two-dimensional sinusoids need", s.dim);
  if (s.units < 1) {
    user_error("model.dim={} times model.mlp_ratio={} leaves no hidden unit; raise one of them", s.dim,
               ratio);
  }
  if (s.image % s.patch != 0) {
    user_error("model.image={} is not a multiple of model.patch={}; patches must tile the image", s.image,
               s.patch);
  }
  return s;
}

/// Returns x (1 + scale) + shift. scale and shift are [B, 1, D], and x is [B, N, D].
Value modulated(Builder& b, Value x, Value shift, Value scale) {
  return b.add(b.mul(x, b.add(scale, 1)), shift);
}

/// Returns `count` rows [B, 1, D] of silu(c), where c is [B, D]. The rows start at 0.
std::vector<Value> modulation(Layers& net, Value activated, std::int64_t count) {
  Builder& b = net.builder();
  const Builder::Scope scope(b, "adaLN_modulation");
  const std::int64_t batch = b.shape(activated).at(0), dim = b.shape(activated).at(1);
  const Value all =
      net.linear("1", activated, count * dim, {.role = "modulation", .init = {InitKind::zeros}});
  std::vector<Value> parts;
  for (std::int64_t i = 0; i < count; ++i)
    parts.push_back(b.reshape(b.slice(all, 1, i * dim, (i + 1) * dim), {batch, 1, dim}));
  return parts;
}

/// [B] -> [B, D]: the cosines of time times 10000^(-i / 128), then their sines,
/// go through two linear layers.
Value time_embedding(Layers& net, Value time, std::int64_t dim) {
  Builder& b = net.builder();
  const Builder::Scope scope(b, "t_embedder");
  ir::Doubles frequencies;
  for (std::int64_t i = 0; i < kFrequencies; ++i) {
    frequencies.push_back(
        std::exp(-std::log(kLongestPeriod) * static_cast<double>(i) / static_cast<double>(kFrequencies)));
  }
  const Value row = b.emit(Opcode::constant, {}, {{"values", std::move(frequencies)}},
                           ir::TensorType{b.type(time).dtype, {1, kFrequencies}});
  const Value angle = b.mul(b.reshape(time, {b.shape(time).at(0), 1}), row);
  const Value waves[] = {b.unary(Opcode::cos, angle), b.unary(Opcode::sin, angle)};
  const Builder::Scope mlp(b, "mlp");
  const LinearOptions linear{.role = "time", .init = kEmbeddingInit};
  const Value hidden = b.emit(Opcode::silu, {net.linear("0", b.concat(waves, 1), dim, linear)});
  return net.linear("2", hidden, dim, linear);
}

Value label_embedding(Layers& net, const Interpolant& s, Value label) {
  Builder& b = net.builder();
  const Builder::Scope scope(b, "y_embedder"), table(b, "embedding_table");
  const Value rows = net.parameter("weight", {s.rows(), s.dim}, kEmbeddingInit, "label");
  return b.emit(Opcode::gather, {rows, label}, {{"axis", std::int64_t{0}}});
}

Value embed_image(Layers& net, const Interpolant& s, Value image) {
  Builder& b = net.builder();
  const Value positions =
      net.frozen("pos_embed", {1, s.tokens(), s.dim}, {InitKind::sinusoid_2d, 0}, "pos_embed");
  const Builder::Scope scope(b, "x_embedder"), proj(b, "proj");
  const std::int64_t pixels = s.channels * s.patch * s.patch;
  const double bound =
      std::sqrt(6 / static_cast<double>(pixels + s.dim));  // Xavier's, of the weight as a matrix
  const Value weight = net.parameter("weight", {s.dim, s.channels, s.patch, s.patch},
                                     {InitKind::uniform, -bound, bound}, "patch_embed");
  const Value bias = net.parameter("bias", {s.dim}, {InitKind::zeros}, "patch_embed");
  const Value x = b.linear(net.patch_rows(image, s.patch), b.reshape(weight, {s.dim, pixels}), bias);
  return b.add(x, positions);
}

/// `activated` is silu(c).
Value modulated_block(Layers& net, const Interpolant& s, Value x, Value activated) {
  Builder& b = net.builder();
  const std::vector<Value> parts = modulation(net, activated, 6);
  const auto input = [&](std::string_view name, std::size_t shift) -> Layer {
    return [&net, &b, &parts, name, shift](Value z) {
      return modulated(b, net.layer_norm(name, z, kPlainNorm), parts[shift], parts[shift + 1]);
    };
  };
  const auto gated = [&](std::size_t gate) -> Layer {
    return [&b, &parts, gate](Value f) { return b.mul(f, parts[gate]); };
  };
  const auto join = [&](std::string_view site, const Layer& norm, const Layer& branch, std::size_t gate) {
    const auto in_site = [&](Value z) {
      const Builder::Scope scope(b, site);
      return branch(z);
    };
    // The gate ends the branch and lets it start at 0. If a strategy also started the layer before the gate
    // at 0, neither of them would get a gradient.
    return net.join(
        site, x, norm, in_site,
        {.last = "adaLN_modulation.1", .heads = s.heads, .branch_in_site = false, .scale = gated(gate)});
  };
  x = join(
      "attn", input("norm1", 0),
      [&](Value z) { return net.attention(z, s.heads, 0, true, LinearInit::xavier); }, 2);
  return join(
      "mlp", input("norm2", 3),
      [&](Value z) { return net.mlp(z, s.units, "gelu_tanh", 0, LinearInit::xavier); }, 5);
}

/// [B, tokens, p p C] -> [B, C, H, W].
Value unpatchified(Builder& b, const Interpolant& s, Value rows, std::int64_t channels) {
  const std::int64_t batch = b.shape(rows).at(0), side = s.image / s.patch;
  const Value x = b.reshape(rows, {batch, side, side, s.patch, s.patch, channels});
  return b.reshape(b.transpose(x, {0, 5, 1, 3, 2, 4}), {batch, channels, s.image, s.image});
}

Value final_layer(Layers& net, const Interpolant& s, Value x, Value activated) {
  Builder& b = net.builder();
  const Builder::Scope scope(b, "final_layer");
  const std::vector<Value> parts = modulation(net, activated, 2);
  x = modulated(b, net.layer_norm("norm_final", x, kPlainNorm), parts[0], parts[1]);
  const Value rows =
      net.linear("linear", x, s.patch * s.patch * s.outputs(), {.role = "head", .init = {InitKind::zeros}});
  return unpatchified(b, s, rows, s.outputs());
}

void build_sit(Layers& net, const ir::Attributes& options, std::int64_t batch) {
  const Interpolant s = settings_of_sit(options);
  Builder& b = net.builder();
  const Value image = b.argument("image", {ir::DType::f32, {batch, s.channels, s.image, s.image}});
  const Value time = b.argument("time", {ir::DType::f32, {batch}});
  const Value label = b.argument("label", {ir::DType::i64, {batch}});
  Value x = embed_image(net, s, image);
  const Value embedded = time_embedding(net, time, s.dim);
  const Value activated = b.emit(Opcode::silu, {b.add(embedded, label_embedding(net, s, label))});
  std::vector<Value> skips;
  const std::int64_t kept = s.unet ? s.depth / 2 : 0;
  for (std::int64_t i = 0; i < s.depth; ++i) {
    const Layers::Block place(net, fmt::format("blocks.{}", i));
    if (i >= s.depth - kept) {
      x = b.add(x, net.linear("skip", skips.back(), s.dim, {.start = LinearInit::xavier}));
      skips.pop_back();
    }
    x = modulated_block(net, s, x, activated);
    if (i < kept) skips.push_back(x);
  }
  net.begin_layer();
  const Value velocity = final_layer(net, s, x, activated);
  b.result("velocity", s.learns_sigma ? b.slice(velocity, 1, 0, s.channels) : velocity);
}

/// Converts a weight's name in the code of Zhang et al. to ours. Their code has the two halves of the blocks
/// as enc_blocks and dec_blocks.
std::string sit_name_here(const std::string& name, const ir::Attributes& options) {
  const bool is_second = name.starts_with("dec_blocks.");
  if (!is_second && !name.starts_with("enc_blocks.")) return name;
  const std::string rest = name.substr(std::string_view("enc_blocks.").size());
  std::int64_t index = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), index);
  if (error != std::errc() || index < 0 || index > options.get_int("depth")) return name;
  if (is_second) index += options.get_int("depth") / 2;
  return fmt::format("blocks.{}{}", index, rest.substr(static_cast<std::size_t>(end - rest.data())));
}

ir::Attributes latents(std::int64_t dim, std::int64_t depth, std::int64_t heads) {
  return {{"dim", dim}, {"depth", depth}, {"heads", heads}};
}

}  // namespace

const Family kSit{
    .name = "sit",
    .doc = "the scalable interpolant transformer, which learns velocities from noise to images of a class",
    .objective = "diffusion",
    .schema =
        {dim_parameter(384), depth_parameter(12), heads_parameter(6), mlp_ratio_parameter(4),
         patch_parameter(2), image_parameter(32, ", or of a latent in positions"),
         ir::int_parameter("channels", 4, "channels of an input image or latent").at_least(1).at_most(4096),
         ir::int_parameter("classes", 1000, "number of classes that condition the network")
             .at_least(1)
             .at_most(1'000'000),
         ir::bool_parameter("null_class", true,
                            "add a row for 'no class' to the class table; guidance needs it"),
         ir::bool_parameter("learn_sigma", true,
                            "give the output twice the channels, as the public weights have them; the second "
                            "half is not used"),
         ir::enum_parameter(
             "skips", {"none", "unet"},
             "blocks of the first half that blocks of the second half read; none: none; unet: one each")},
    .build = build_sit,
    .name_here = sit_name_here,
    .variants = {{"sit_tiny_28",
                  {{"image", std::int64_t{28}},
                   {"channels", std::int64_t{1}},
                   {"classes", std::int64_t{10}},
                   {"patch", std::int64_t{4}},
                   {"dim", std::int64_t{128}},
                   {"depth", std::int64_t{6}},
                   {"heads", std::int64_t{4}},
                   {"learn_sigma", false}}},
                 {"sit_s_2", latents(384, 12, 6)},
                 {"sit_b_2", latents(768, 12, 12)},
                 {"sit_l_2", latents(1024, 24, 16)},
                 {"sit_xl_2", latents(1152, 28, 16)}}};

}  // namespace rewire::models
