#include "models/vision_transformer.h"

#include <fmt/format.h>

#include <vector>

#include "ir/error.h"

namespace rewire::models {
namespace {

using ir::Builder;
using ir::Value;

/// timm: int(dim * mlp_ratio), toward zero.
std::int64_t hidden_units(const VisionTransformer& s) {
  return static_cast<std::int64_t>(static_cast<double>(s.dim) * s.mlp_ratio);
}

void check_settings(const VisionTransformer& s) {
  if (s.dim % s.heads != 0) {
    user_error("model.dim={} is no multiple of model.heads={}; set dim to heads times a head's width", s.dim,
               s.heads);
  }
  if (s.image % s.patch != 0) {
    user_error("model.image={} is no multiple of model.patch={}; patches must tile the image", s.image,
               s.patch);
  }
  if (hidden_units(s) < 1) {
    user_error("model.dim={} times model.mlp_ratio={} leaves no hidden unit; raise one of them", s.dim,
               s.mlp_ratio);
  }
  if (!s.class_token && !s.averages) {
    user_error(
        "model.class_token=false leaves model.pool=token nothing to classify; set model.pool=avg, or keep "
        "the "
        "class token");
  }
}

/// The tokens that enter the blocks, [batch, prefix + patches, dim].
Value embed_tokens(Layers& net, const VisionTransformer& s, Value image) {
  Builder& b = net.builder();
  const std::int64_t batch = b.shape(image).at(0);
  const std::int64_t patches = (s.image / s.patch) * (s.image / s.patch);
  const std::int64_t prefix = (s.class_token ? 1 : 0) + s.reg_tokens;

  std::vector<Value> parts;
  if (s.class_token)
    parts.push_back(net.parameter("cls_token", {1, 1, s.dim}, s.class_token_init, "cls_token"));
  if (s.reg_tokens > 0) {
    parts.push_back(
        net.parameter("reg_token", {1, s.reg_tokens, s.dim}, {ir::InitKind::normal, 1e-6}, "reg_token"));
  }
  const std::int64_t places = patches + (s.no_embed_class ? 0 : prefix);
  const Value pos = net.parameter("pos_embed", {1, places, s.dim}, s.position_init, "pos_embed");
  Value x = net.patch_embed("patch_embed", image, s.dim, s.patch, !s.pre_norm);
  if (s.no_embed_class) x = b.add(x, pos);
  if (!parts.empty()) {
    for (Value& part : parts) part = b.broadcast(part, {batch, b.shape(part).at(1), s.dim});
    parts.push_back(x);
    x = b.concat(parts, 1);
  }
  if (!s.no_embed_class) x = b.add(x, pos);
  x = net.dropout("pos_drop", x, s.dropout);
  return s.pre_norm ? net.layer_norm("norm_pre", x, {.affine = s.outer_norms_affine}) : x;
}

Value run_blocks(Layers& net, const VisionTransformer& s, Value x) {
  const auto norm = [&](std::string_view name) -> Layer {
    return [&net, &s, name](Value z) { return net.layer_norm(name, z, {.affine = s.block_norms_affine}); };
  };
  const auto scale = [&](std::string_view name) -> Layer {
    if (s.init_values == 0) return {};
    return [&net, &s, name](Value z) { return net.layer_scale(name, z, s.init_values); };
  };
  for (std::int64_t i = 0; i < s.depth; ++i) {
    const Layers::Block block(net, fmt::format("blocks.{}", i));
    const double rate = drop_path_rate(s.drop_path, i, s.depth);
    x = net.join("attn", x, norm("norm1"),
                 [&](Value z) { return net.attention(z, s.heads, s.dropout, s.qkv_bias, s.linear_init); },
                 {.last = "proj", .drop_path = rate, .heads = s.heads, .scale = scale("ls1")});
    x = net.join("mlp", x, norm("norm2"),
                 [&](Value z) { return net.mlp(z, hidden_units(s), s.act_layer, s.dropout, s.linear_init); },
                 {.last = "fc2", .drop_path = rate, .heads = s.heads, .scale = scale("ls2")});
  }
  return x;
}

/// What the head sees, [batch, dim].
Value pool_tokens(Layers& net, const VisionTransformer& s, Value x) {
  Builder& b = net.builder();
  const std::int64_t batch = b.shape(x).at(0), tokens = b.shape(x).at(1);
  const std::int64_t prefix = (s.class_token ? 1 : 0) + s.reg_tokens;
  const auto norm = [&](Value z) {
    return net.layer_norm(s.fc_norm ? "fc_norm" : "norm", z, {.affine = s.outer_norms_affine});
  };
  // The norm works token by token, so the tokens that are not pooled are left out before it: the same numbers
  // as timm's, which norms all of them.
  if (!s.averages) return norm(b.reshape(b.slice(x, 1, 0, 1), {batch, s.dim}));
  if (prefix > 0) x = b.slice(x, 1, prefix, tokens);
  const auto mean = [&](Value z) { return b.reshape(b.mean(z, {1}), {batch, s.dim}); };
  return s.fc_norm ? norm(mean(x)) : mean(norm(x));
}

}  // namespace

void build_vision_transformer(Layers& net, const VisionTransformer& s, std::int64_t batch) {
  check_settings(s);
  Builder& b = net.builder();
  const Value image = b.argument("image", {ir::DType::f32, {batch, s.channels, s.image, s.image}});
  const Value features = pool_tokens(net, s, run_blocks(net, s, embed_tokens(net, s, image)));
  // The norm is of the last block's layer, as timm groups them.
  net.classify(features, s.classes, [&](Value z, std::int64_t classes) {
    return net.linear("head", z, classes, {.start = s.linear_init});
  });
}

}  // namespace rewire::models
