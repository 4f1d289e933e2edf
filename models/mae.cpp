// The masked autoencoder (He et al., CVPR 2022), with the parameter names and initialisation of its authors'
// code. A ViT reads the patches that are kept, and a narrower ViT predicts the pixels of all patches:
//   s = argsort(noise), kept = s[: L - masked], r = argsort(s)
//   z = [cls; (patches[kept] W^T + b + pos[kept])]; blocks; z = LN(z)
//   x = [z W_d^T + b_d and mask tokens, each patch put in its place by r] + pos_d; decoder blocks
//   prediction = LN(x) W_p^T + b_p: the pixels (p, q, c) of each patch
// Zhang et al. (2025), Residual Connections Harm Generative Representation
// Learning, make two networks of it. Their decoder reads the outputs u_j of
// every other encoder block, last first, filled up with mask tokens of its own:
//   unet        as in their code: x = [cls_d; pos_d] W_d^T + b_d, with no content of the encoder. Before
//               decoder block j: x = x + W2 silu(W1 [u_j; x] + b1) + b2, where W2 starts at 0. The encoder
//               has no last norm.
//   unet_paper  as in their paper: the decoder begins as MAE's. Before decoder block j: x = W [u_j; x] + b
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "models/model.h"
#include "models/parameters.h"

namespace rewire::models {

extern const Family kMae;

namespace {

using ir::Builder;
using ir::InitKind;
using ir::Opcode;
using ir::Value;

const ir::Init kTokenInit{InitKind::normal, 0.02};

struct MaskedAutoencoder {
  std::int64_t image, channels, patch, dim, depth, heads, decoder_dim, decoder_depth, decoder_heads;
  double mlp_ratio;
  std::int64_t patches, kept;
  bool unet, unet_paper, decoder;
};

std::int64_t mae_units(const MaskedAutoencoder& s, std::int64_t dim) {
  return static_cast<std::int64_t>(static_cast<double>(dim) * s.mlp_ratio);
}

MaskedAutoencoder settings_of_mae(const ir::Attributes& options) {
  const auto count = [&](std::string_view name) { return options.get_int(name); };
  const std::string& skips = options.get_string("skips");
  MaskedAutoencoder s{.image = count("image"),
                      .channels = count("channels"),
                      .patch = count("patch"),
                      .dim = count("dim"),
                      .depth = count("depth"),
                      .heads = count("heads"),
                      .decoder_dim = count("decoder_dim"),
                      .decoder_depth = count("decoder_depth"),
                      .decoder_heads = count("decoder_heads"),
                      .mlp_ratio = options.get_double("mlp_ratio"),
                      .patches = 0,
                      .kept = 0,
                      .unet = skips == "unet",
                      .unet_paper = skips == "unet_paper",
                      .decoder = options.get_bool("decoder")};
  for (const auto& [name, width, heads] :
       {std::tuple{"", s.dim, s.heads}, {"decoder_", s.decoder_dim, s.decoder_heads}}) {
    if (*name != '\0' && !s.decoder) continue;
    if (width % heads != 0) {
      user_error(
          "model.{}dim={} is not a multiple of model.{}heads={}; set dim to heads times a head's width", name,
          width, name, heads);
    }
    if (width % 4 != 0)
      user_error("model.{}dim={} is not a multiple of 4, as two-dimensional sinusoids need", name, width);
    if (mae_units(s, width) < 1) {
      user_error("model.{}dim={} times model.mlp_ratio={} leaves no hidden unit; raise one of them", name,
                 width, s.mlp_ratio);
    }
  }
  if (s.image % s.patch != 0) {
    user_error("model.image={} is not a multiple of model.patch={}; patches must tile the image", s.image,
               s.patch);
  }
  s.patches = (s.image / s.patch) * (s.image / s.patch);
  if (!s.decoder) return s;
  const double ratio = options.get_double("mask_ratio");
  s.kept = static_cast<std::int64_t>(static_cast<double>(s.patches) * (1 - ratio));
  if (s.kept < 1 || s.kept == s.patches) {
    user_error("model.mask_ratio={} {} of {} patches; some must be masked, and some kept", ratio,
               s.kept < 1 ? "keeps none" : "masks none", s.patches);
  }
  return s;
}

ir::Init xavier_of_matrix(std::int64_t in, std::int64_t out) {
  const double bound = std::sqrt(6 / static_cast<double>(in + out));
  return {InitKind::uniform, -bound, bound};
}

/// Returns the rows of x [B, N, ...] at the indices [B, K] of each sample.
Value take_rows(Builder& b, Value x, Value indices) {
  return b.emit(Opcode::gather, {x, indices}, {{"axis", std::int64_t{1}}});
}

/// Which patches are kept, and the place of each patch among
/// the kept patches and then the masked ones. Both i32.
struct Mask {
  Value kept, places;  // [B, kept], [B, patches]
};

Mask mask_of(Builder& b, Value noise, std::int64_t kept) {
  const Builder::Scope scope(b, "mask");
  const auto argsort = [&](Value x) {
    return b.emit_all(Opcode::sort, std::vector<Value>{x}, {{"axis", std::int64_t{1}}})[1];
  };
  const Value shuffle = argsort(noise);
  return {b.slice(shuffle, 1, 0, kept), argsort(shuffle)};
}

/// Tokens [B, 1 + kept, D] -> [B, 1 + patches, D]: the class
/// token, then all patches. Masked patches are `token`.
Value fill_up(Builder& b, const MaskedAutoencoder& s, Value tokens, Value token, const Mask& mask) {
  const std::int64_t batch = b.shape(tokens).at(0), width = b.shape(tokens).at(2);
  const Value known[] = {b.slice(tokens, 1, 1, 1 + s.kept),
                         b.broadcast(token, {batch, s.patches - s.kept, width})};
  const Value all[] = {b.slice(tokens, 1, 0, 1), take_rows(b, b.concat(known, 1), mask.places)};
  return b.concat(all, 1);
}

Value block(Layers& net, const MaskedAutoencoder& s, std::int64_t heads, Value x) {
  const std::int64_t units = mae_units(s, net.builder().shape(x).at(2));
  const auto norm = [&](std::string_view name) -> Layer {
    return [&net, name](Value z) { return net.layer_norm(name, z); };
  };
  x = net.join("attn", x, norm("norm1"),
               [&](Value z) { return net.attention(z, heads, 0, true, LinearInit::xavier); },
               {.last = "proj", .heads = heads});
  return net.join("mlp", x, norm("norm2"),
                  [&](Value z) { return net.mlp(z, units, "gelu", 0, LinearInit::xavier); },
                  {.last = "fc2", .heads = heads});
}

/// Returns the class token, then the patches that the mask keeps, or all patches if there is no mask.
Value embed_patches(Layers& net, const MaskedAutoencoder& s, Value image, const Mask* mask) {
  Builder& b = net.builder();
  const std::int64_t batch = b.shape(image).at(0), pixels = s.channels * s.patch * s.patch;
  const Value cls = net.parameter("cls_token", {1, 1, s.dim}, kTokenInit, "cls_token");
  const Value positions =
      net.frozen("pos_embed", {1, 1 + s.patches, s.dim}, {InitKind::sinusoid_2d, 1}, "pos_embed");
  const auto keep = [&](Value rows) { return mask == nullptr ? rows : take_rows(b, rows, mask->kept); };
  const Value kept = keep(net.patch_rows(image, s.patch));
  Value x;
  {
    const Builder::Scope scope(b, "patch_embed"), proj(b, "proj");
    const Value weight = net.parameter("weight", {s.dim, s.channels, s.patch, s.patch},
                                       xavier_of_matrix(pixels, s.dim), "patch_embed");
    const double bound = 1 / std::sqrt(static_cast<double>(pixels));  // as in Conv2d
    const Value bias = net.parameter("bias", {s.dim}, {InitKind::uniform, -bound, bound}, "patch_embed");
    x = b.linear(kept, b.reshape(weight, {s.dim, pixels}), bias);
  }
  const Value places = b.broadcast(b.slice(positions, 1, 1, 1 + s.patches), {batch, s.patches, s.dim});
  const Value first = b.add(cls, b.slice(positions, 1, 0, 1));
  const Value tokens[] = {b.broadcast(first, {batch, 1, s.dim}), b.add(x, keep(places))};
  return b.concat(tokens, 1);
}

/// Returns the input of decoder block `index`, computed from x and from `output` of an encoder block.
Value skip_into(Layers& net, const MaskedAutoencoder& s, std::int64_t index, Value output, Value x,
                const Mask& mask) {
  Builder& b = net.builder();
  const Builder::Scope scope(b, fmt::format("decoder_skips.{}", index));
  const Value token = net.parameter("mask_token", {1, 1, s.dim}, kTokenInit, "mask_token");
  const Value both[] = {fill_up(b, s, output, token, mask), x};
  const Value joined = b.concat(both, 2);
  if (s.unet_paper) return net.linear("proj", joined, s.decoder_dim, {.start = LinearInit::xavier});
  const Value hidden = net.linear("fc1", joined, s.decoder_dim, {.start = LinearInit::xavier});
  const Value gated = b.emit(Opcode::silu, {hidden});
  return b.add(x, net.linear("fc2", gated, s.decoder_dim, {.init = {InitKind::zeros}}));
}

Value decoder_start(Layers& net, const MaskedAutoencoder& s, Value latent, const Mask& mask) {
  Builder& b = net.builder();
  const std::int64_t batch = b.shape(latent).at(0);
  const LinearOptions embed{.start = LinearInit::xavier};
  const ir::Shape places = {1, 1 + s.patches, s.decoder_dim};
  if (s.unet) {
    const Value cls = net.parameter("decoder_cls_token", {1, 1, s.decoder_dim}, kTokenInit, "cls_token");
    const Value positions = net.frozen("decoder_pos_embed", places, {InitKind::sinusoid_2d, 1}, "pos_embed");
    const Value parts[] = {cls, b.slice(positions, 1, 1, 1 + s.patches)};
    const Value start = net.linear("decoder_embed", b.concat(parts, 1), s.decoder_dim, embed);
    return b.broadcast(start, {batch, 1 + s.patches, s.decoder_dim});
  }
  const Value x = net.linear("decoder_embed", latent, s.decoder_dim, embed);
  const Value token = net.parameter("mask_token", {1, 1, s.decoder_dim}, kTokenInit, "mask_token");
  const Value positions = net.frozen("decoder_pos_embed", places, {InitKind::sinusoid_2d, 1}, "pos_embed");
  return b.add(fill_up(b, s, x, token, mask), positions);
}

/// Returns the outputs of the encoder's blocks.
std::vector<Value> run_encoder(Layers& net, const MaskedAutoencoder& s, Value x) {
  std::vector<Value> outputs;
  for (std::int64_t i = 0; i < s.depth; ++i) {
    const Layers::Block place(net, fmt::format("blocks.{}", i));
    outputs.push_back(x = block(net, s, s.heads, x));
  }
  return outputs;
}

/// Builds the encoder as a network of its own. It reads all patches and returns its class token.
void build_encoder(Layers& net, const MaskedAutoencoder& s, Value image) {
  Builder& b = net.builder();
  const Value x = run_encoder(net, s, embed_patches(net, s, image, nullptr)).back();
  const Value cls = b.reshape(b.slice(x, 1, 0, 1), {b.shape(x).at(0), s.dim});
  b.result("features", s.unet ? cls : net.layer_norm("norm", cls));
}

void build_mae(Layers& net, const ir::Attributes& options, std::int64_t batch) {
  const MaskedAutoencoder s = settings_of_mae(options);
  Builder& b = net.builder();
  const Value image = b.argument("image", {ir::DType::f32, {batch, s.channels, s.image, s.image}});
  if (!s.decoder) return build_encoder(net, s, image);
  const Mask mask = mask_of(b, b.argument("noise", {ir::DType::f32, {batch, s.patches}}), s.kept);
  const std::vector<Value> outputs = run_encoder(net, s, embed_patches(net, s, image, &mask));
  Value x = outputs.back();
  if (!s.unet) x = net.layer_norm("norm", x);
  const Value latent = x;

  net.begin_layer();
  const std::int64_t skips = s.unet || s.unet_paper ? std::min(s.decoder_depth, s.depth / 2) : 0;
  x = decoder_start(net, s, x, mask);
  for (std::int64_t j = 0; j < s.decoder_depth; ++j) {
    if (j < skips) x = skip_into(net, s, j, outputs[static_cast<std::size_t>(s.depth - 1 - 2 * j)], x, mask);
    const Layers::Block place(net, fmt::format("decoder_blocks.{}", j), "decoder");
    x = block(net, s, s.decoder_heads, x);
  }
  x = net.layer_norm("decoder_norm", b.slice(x, 1, 1, 1 + s.patches));
  b.result("prediction", net.linear("decoder_pred", x, s.patch * s.patch * s.channels,
                                    {.role = "head", .start = LinearInit::xavier}));
  const Value bound = b.constant(static_cast<double>(s.kept), ir::DType::i32);
  b.result("mask", b.cast(b.compare("ge", mask.places, bound), ir::DType::f32));
  b.result("latent", latent);
}

/// Converts a weight's name in the code of Zhang et al. to ours. Their code has the decoder's skips as
/// skip.J, and the layers in them as fc.0 and fc.2.
std::string mae_name_here(const std::string& name, const ir::Attributes&) {
  constexpr std::string_view kSkip = "skip.";
  if (!name.starts_with(kSkip)) return name;
  std::string ours = "decoder_skips." + name.substr(kSkip.size());
  for (const auto& [theirs, layer] : {std::pair{".fc.0.", ".fc1."}, {".fc.2.", ".fc2."}}) {
    if (const std::size_t at = ours.find(theirs); at != std::string::npos)
      ours.replace(at, std::string_view(theirs).size(), layer);
  }
  return ours;
}

ir::Attributes mae(std::int64_t image, std::int64_t channels, std::int64_t patch, std::int64_t dim,
                   std::int64_t heads, std::int64_t decoder_dim, std::int64_t decoder_depth,
                   std::int64_t decoder_heads) {
  return {{"image", image},
          {"channels", channels},
          {"patch", patch},
          {"dim", dim},
          {"heads", heads},
          {"decoder_dim", decoder_dim},
          {"decoder_depth", decoder_depth},
          {"decoder_heads", decoder_heads}};
}

}  // namespace

const Family kMae{
    .name = "mae",
    .doc = "the masked autoencoder, whose decoder can also read intermediate outputs of the encoder",
    .objective = "mae",
    .schema =
        {ir::int_parameter("dim", 192, "width of the encoder's residual stream; a multiple of heads")
             .at_least(1)
             .at_most(65536),
         ir::int_parameter("depth", 12, "number of encoder blocks").at_least(1).at_most(4096),
         ir::int_parameter("heads", 3, "attention heads per encoder block; a divisor of dim")
             .at_least(1)
             .at_most(65536),
         mlp_ratio_parameter(4), patch_parameter(4), image_parameter(28), channels_parameter(1),
         ir::float_parameter("mask_ratio", 0.75, "share of the patches that are hidden from the encoder")
             .at_least(0)
             .at_most(1),
         ir::enum_parameter(
             "skips", {"none", "unet", "unet_paper"},
             "encoder blocks that the decoder reads; none: only the last; unet: every second one, as the "
             "authors' code has it; unet_paper: every second one, as their paper describes it"),
         ir::bool_parameter("decoder", true,
                            "whether the model has a decoder; false: the encoder reads all patches and the "
                            "result is its class token"),
         ir::int_parameter("decoder_dim", 96,
                           "width of the decoder's residual stream; a multiple of decoder_heads")
             .at_least(1)
             .at_most(65536),
         ir::int_parameter("decoder_depth", 4, "number of decoder blocks").at_least(1).at_most(4096),
         ir::int_parameter("decoder_heads", 3, "attention heads per decoder block; a divisor of decoder_dim")
             .at_least(1)
             .at_most(65536)},
    .build = build_mae,
    .backbone = {{"decoder", false}},
    .positions = PositionRule::deit,
    .name_here = mae_name_here,
    .variants = {{"mae_vit_tiny_28", mae(28, 1, 4, 192, 3, 96, 4, 3)},
                 {"mae_vit_s16", mae(224, 3, 16, 384, 6, 512, 8, 16)},
                 {"mae_vit_b16", mae(224, 3, 16, 768, 12, 512, 8, 16)}}};

}  // namespace rewire::models
