#include "models/vision_transformer.h"

#include <fmt/format.h>

#include <vector>

#include "ir/error.h"
#include "ir/opcodes.h"

namespace rewire::models {
namespace {

using ir::Builder;
using ir::Value;

/// As in timm: int(dim * mlp_ratio), rounded toward zero.
std::int64_t hidden_units(const VisionTransformer& s) {
  return static_cast<std::int64_t>(static_cast<double>(s.dim) * s.mlp_ratio);
}

void check_settings(const VisionTransformer& s) {
  if (s.dim % s.heads != 0) {
    user_error("model.dim={} is not a multiple of model.heads={}; set dim to heads times a head's width",
               s.dim, s.heads);
  }
  if (s.image % s.patch != 0) {
    user_error("model.image={} is not a multiple of model.patch={}; patches must tile the image", s.image,
               s.patch);
  }
  if (s.position_image % s.patch != 0) {
    user_error("model.position_image={} is not a multiple of model.patch={}; patches must tile the image",
               s.position_image, s.patch);
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
  if (s.distilled && (!s.class_token || s.averages)) {
    user_error(
        "model.distilled=true classifies the class token and the distillation token; it takes "
        "model.pool=token and the class token");
  }
}

/// Returns the number of tokens before the patches.
std::int64_t prefix_tokens(const VisionTransformer& s) {
  return (s.class_token ? 1 : 0) + (s.distilled ? 1 : 0) + s.reg_tokens;
}

/// Keys' cubic kernel with a = -0.75, as in PyTorch's
/// bicubic interpolation. `distance` is >= 0, of any shape.
Value cubic_weight(Builder& b, Value distance) {
  constexpr double kA = -0.75;
  const auto polynomial = [&](std::initializer_list<double> coefficients) {  // the highest power first
    Value y;
    for (const double c : coefficients) y = y ? b.add(b.mul(y, distance), c) : b.constant_like(distance, c);
    return y;
  };
  const Value near = polynomial({kA + 2, -(kA + 3), 0, 1});
  const Value far = polynomial({kA, -5 * kA, 8 * kA, -4 * kA});
  const Value zero = b.constant_like(distance, 0);
  const Value outer = b.select(b.compare("lt", distance, b.constant_like(distance, 2)), far, zero);
  return b.select(b.compare("le", distance, b.constant_like(distance, 1)), near, outer);
}

/// A matrix [to, from] that resamples `from` samples in a row to `to` samples, at (i + .5) / scale - .5.
/// Beyond the ends, the first and the last sample are repeated.
Value cubic_matrix(Builder& b, std::int64_t to, std::int64_t from, double scale) {
  const auto index = [&](std::int64_t axis) {
    const Value i =
        b.emit(ir::Opcode::iota, {}, {{"axis", axis}}, ir::TensorType{ir::DType::i64, {to, from}});
    return b.cast(i, ir::DType::f32);
  };
  const Value row = index(0), column = index(1);
  const Value at = b.sub(b.div(b.add(row, 0.5), scale), 0.5), first = b.unary(ir::Opcode::floor, at);
  Value matrix;
  for (const double tap : {-1.0, 0.0, 1.0, 2.0}) {
    const Value place = b.add(first, tap);
    const Value held =
        b.binary(ir::Opcode::minimum, b.binary(ir::Opcode::maximum, place, b.constant_like(place, 0)),
                 b.constant_like(place, static_cast<double>(from - 1)));
    const Value weight = cubic_weight(b, b.unary(ir::Opcode::abs, b.sub(at, place)));
    const Value taken = b.select(b.compare("eq", held, column), weight, b.constant_like(weight, 0));
    matrix = matrix ? b.add(matrix, taken) : taken;
  }
  return matrix;
}

/// Resizes the patches' rows of pos_embed [1, places, dim] from a square grid of side `from` to one of side
/// `to`. It works as in DINO (Caron et al., ICCV 2021): bicubic, with the scale (to + .1) / from.
Value resize_positions(Builder& b, Value positions, std::int64_t from, std::int64_t to) {
  const std::int64_t places = b.shape(positions).at(1), dim = b.shape(positions).at(2);
  const Value cubic = cubic_matrix(b, to, from, (static_cast<double>(to) + 0.1) / static_cast<double>(from));
  Value grid = b.reshape(b.slice(positions, 1, places - from * from, places), {from, from * dim});
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t columns = axis == 0 ? from : to;
    grid = b.reshape(b.matmul(cubic, grid), {to, columns, dim});
    grid = b.reshape(b.transpose(grid, {1, 0, 2}), {columns, to * dim});
  }
  grid = b.reshape(grid, {1, to * to, dim});
  if (places == from * from) return grid;
  const Value parts[] = {b.slice(positions, 1, 0, places - from * from), grid};
  return b.concat(parts, 1);
}

Value outer_norm(Layers& net, const VisionTransformer& s, std::string_view name, Value x) {
  return net.layer_norm(name, x, {.epsilon = s.norm_epsilon, .affine = s.outer_norms_affine});
}

/// Returns the tokens that enter the blocks, [batch, prefix + patches, dim].
Value embed_tokens(Layers& net, const VisionTransformer& s, Value image) {
  Builder& b = net.builder();
  const std::int64_t batch = b.shape(image).at(0);
  const std::int64_t position_side = s.position_image / s.patch;  // 0: as many as patches
  const std::int64_t prefix = prefix_tokens(s);

  std::vector<Value> parts;
  if (s.class_token)
    parts.push_back(net.parameter("cls_token", {1, 1, s.dim}, s.class_token_init, "cls_token"));
  if (s.distilled)  // code that looks for patches sees one more register
    parts.push_back(net.parameter("dist_token", {1, 1, s.dim}, kTruncNormal, "reg_token"));
  if (s.reg_tokens > 0) {
    parts.push_back(
        net.parameter("reg_token", {1, s.reg_tokens, s.dim}, {ir::InitKind::normal, 1e-6}, "reg_token"));
  }
  const std::int64_t grid = position_side == 0 ? s.rows() * s.columns() : position_side * position_side;
  const std::int64_t places = grid + (s.no_embed_class ? 0 : prefix);
  Value pos = net.parameter("pos_embed", {1, places, s.dim}, s.position_init, "pos_embed");
  if (position_side != 0 && position_side != s.rows())
    pos = resize_positions(b, pos, position_side, s.rows());
  Value x = net.patch_embed("patch_embed", image, s.dim, s.patch, !s.pre_norm);
  if (s.no_embed_class) x = b.add(x, pos);
  if (!parts.empty()) {
    for (Value& part : parts) part = b.broadcast(part, {batch, b.shape(part).at(1), s.dim});
    parts.push_back(x);
    x = b.concat(parts, 1);
  }
  if (!s.no_embed_class) x = b.add(x, pos);
  x = net.dropout("pos_drop", x, s.dropout);
  return s.pre_norm ? outer_norm(net, s, "norm_pre", x) : x;
}

Value run_blocks(Layers& net, const VisionTransformer& s, Value x, Value key_bias = {}) {
  const auto norm = [&](std::string_view name) -> Layer {
    return [&net, &s, name](Value z) {
      return net.layer_norm(name, z, {.epsilon = s.norm_epsilon, .affine = s.block_norms_affine});
    };
  };
  const auto scale = [&](std::string_view name) -> Layer {
    if (s.init_values == 0) return {};
    return [&net, &s, name](Value z) { return net.layer_scale(name, z, s.init_values); };
  };
  for (std::int64_t i = 0; i < s.depth; ++i) {
    const Layers::Block block(net, fmt::format("blocks.{}", i), s.scope);
    const double rate = drop_path_rate(s.drop_path, i, s.depth);
    x = net.join(
        "attn", x, norm("norm1"),
        [&](Value z) { return net.attention(z, s.heads, s.dropout, s.qkv_bias, s.linear_init, key_bias); },
        {.last = "proj", .drop_path = rate, .heads = s.heads, .scale = scale("ls1")});
    x = net.join("mlp", x, norm("norm2"),
                 [&](Value z) { return net.mlp(z, hidden_units(s), s.act_layer, s.dropout, s.linear_init); },
                 {.last = "fc2", .drop_path = rate, .heads = s.heads, .scale = scale("ls2")});
  }
  return x;
}

/// Returns what the heads read, [batch, dim] each: one
/// tensor, or one each for the class and distillation tokens.
std::vector<Value> pool_tokens(Layers& net, const VisionTransformer& s, Value x) {
  Builder& b = net.builder();
  const std::int64_t batch = b.shape(x).at(0), tokens = b.shape(x).at(1);
  // The norm works on each token alone, so tokens that are not pooled are dropped before it. The numbers are
  // the same as timm's, which norms all tokens.
  const auto norm = [&](Value z) {
    // timm groups fc_norm with the head, and so does the
    // code of the masked autoencoder (He et al., CVPR 2022).
    if (s.fc_norm) net.begin_head();
    return outer_norm(net, s, s.fc_norm ? "fc_norm" : "norm", z);
  };
  const auto token = [&](Value z, std::int64_t i) {
    return b.reshape(b.slice(z, 1, i, i + 1), {batch, s.dim});
  };
  if (s.distilled) {
    const Value both = norm(b.slice(x, 1, 0, 2));
    return {token(both, 0), token(both, 1)};
  }
  if (!s.averages) return {norm(token(x, 0))};
  if (const std::int64_t prefix = prefix_tokens(s); prefix > 0) x = b.slice(x, 1, prefix, tokens);
  const auto mean = [&](Value z) { return b.reshape(b.mean(z, {1}), {batch, s.dim}); };
  return {s.fc_norm ? norm(mean(x)) : mean(norm(x))};
}

Value mean_of(Builder& b, const std::vector<Value>& values) {
  return values.size() == 1 ? values.front() : b.mul(b.add(values[0], values[1]), 0.5);
}

std::vector<Value> pooled_features(Layers& net, const VisionTransformer& s, Value image) {
  check_settings(s);
  return pool_tokens(net, s, run_blocks(net, s, embed_tokens(net, s, image)));
}

}  // namespace

Value vision_transformer_features(Layers& net, const VisionTransformer& s, Value image) {
  return mean_of(net.builder(), pooled_features(net, s, image));
}

Value vision_transformer_patches(Layers& net, const VisionTransformer& s, Value image, Value valid) {
  check_settings(s);
  Builder& b = net.builder();
  const std::int64_t prefix = prefix_tokens(s), batch = b.shape(image).at(0);
  if (prefix > 0) {
    const Value seen[] = {b.broadcast(b.constant_like(valid, 1), {batch, prefix}), valid};
    valid = b.concat(seen, 1);
  }
  const Value x = run_blocks(net, s, embed_tokens(net, s, image), bias_of_keys(b, valid));
  return outer_norm(net, s, "norm", b.slice(x, 1, prefix, b.shape(x).at(1)));
}

void build_vision_transformer(Layers& net, const VisionTransformer& s, std::int64_t batch) {
  Builder& b = net.builder();
  const Value image = b.argument("image", {ir::DType::f32, {batch, s.channels, s.image, s.image}});
  const std::vector<Value> features = pooled_features(net, s, image);
  // As in timm, `norm` belongs to the last block's layer, and the head's group begins after it.
  net.begin_head();
  if (s.classes == 0) {
    b.result("features", mean_of(b, features));
    return;
  }
  ir::Init init = kTruncNormal;
  init.a = s.head_std;
  std::vector<Value> logits;
  for (const Value seen : features) {
    logits.push_back(net.linear(logits.empty() ? "head" : "head_dist", seen, s.classes,
                                {.role = "head", .init = init, .start = s.linear_init}));
  }
  b.result("logits", mean_of(b, logits));
}

}  // namespace rewire::models
