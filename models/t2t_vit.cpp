// T2T-ViT (Yuan et al., ICCV 2021), with the parameter names, layouts and initialisation of its authors'
// code. Overlapping windows of the image become tokens in three steps, with a layer of attention after each
// of the first two. A ViT reads these tokens:
//   t = unfold(image, 7, 4, 2);  twice: t = unfold(maps(layer(t)), 3, 2, 1);  z = [cls; t W + b] + sinusoids
// The two layers have no residual joins: their width changes, and their sums are not the stream.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/philox.h"
#include "models/model.h"
#include "models/parameters.h"

namespace rewire::models {

extern const Family kT2tVit;

namespace {

using ir::Builder;
using ir::Opcode;
using ir::Value;

constexpr double kT2tEpsilon = 1e-5;  // of all its norms: PyTorch's default
constexpr std::int64_t kStride = 16;  // of the three steps together

std::int64_t backbone_units(const ir::Attributes& options) {
  return static_cast<std::int64_t>(static_cast<double>(options.get_int("dim")) *
                                   options.get_double("mlp_ratio"));
}

void check_t2t(const ir::Attributes& options) {
  const std::int64_t dim = options.get_int("dim"), heads = options.get_int("heads");
  if (dim % heads != 0) {
    user_error("model.dim={} is not a multiple of model.heads={}; set dim to heads times a head's width", dim,
               heads);
  }
  if (options.get_int("image") % kStride != 0) {
    user_error("model.image={} is not a multiple of {}, the stride of the three tokenisation steps",
               options.get_int("image"), kStride);
  }
  if (backbone_units(options) < 1) {
    user_error("model.dim={} times model.mlp_ratio={} leaves no hidden unit; raise one of them", dim,
               options.get_double("mlp_ratio"));
  }
}

/// Returns the windows of maps [B, C, H, W] as tokens [B, windows, C kernel^2].
Value window_tokens(Builder& b, Value maps, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  const Value windows = b.emit(Opcode::unfold, {maps},
                               {{"kernel", ir::Ints{kernel, kernel}},
                                {"strides", ir::Ints{stride, stride}},
                                {"padding", ir::Ints{padding, padding}}});
  return b.transpose(windows, {0, 2, 1});
}

/// Returns tokens [B, side^2, C], in the order of rows, as maps [B, C, side, side].
Value square_maps(Builder& b, Value tokens, std::int64_t side) {
  const ir::Shape shape = b.shape(tokens);
  return b.reshape(b.transpose(tokens, {0, 2, 1}), {shape.at(0), shape.at(2), side, side});
}

/// Returns `rows` orthogonal directions in `width` dimensions, each of length sqrt(rows): normal numbers
/// after Gram-Schmidt. They depend on the name alone, because they choose features and do not train.
ir::Init orthogonal_features(std::string_view name, std::int64_t rows, std::int64_t width) {
  const ir::PhiloxStream stream{0, 0, ir::stream_hash(name)};
  const auto n = static_cast<std::size_t>(rows), d = static_cast<std::size_t>(width);
  std::vector<double> w(n * d);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = stream.normal(i);
  for (std::size_t r = 0; r < n; ++r) {
    double* row = w.data() + r * d;
    for (int pass = 0; pass < 2; ++pass) {  // the second removes what rounding left of the first
      for (std::size_t before = 0; before < r; ++before) {
        const double* other = w.data() + before * d;
        double along = 0;
        for (std::size_t i = 0; i < d; ++i) along += row[i] * other[i];
        for (std::size_t i = 0; i < d; ++i) row[i] -= along * other[i];
      }
      double square = 0;
      for (std::size_t i = 0; i < d; ++i) square += row[i] * row[i];
      for (std::size_t i = 0; i < d; ++i) row[i] /= std::sqrt(square);
    }
  }
  for (double& value : w) value *= std::sqrt(static_cast<double>(rows));
  return {.kind = ir::InitKind::values, .values = std::move(w)};
}

/// Returns exp(w x - |x|^2 / 2) / sqrt(m), the positive random features of the softmax kernel (Choromanski
/// et al., ICLR 2021, lemma 1). x is [B, N, width] and w is [m, width].
Value positive_features(Builder& b, Value x, Value w) {
  const Value half_square = b.mul(b.sum(b.mul(x, x), {-1}), 0.5);
  const Value exponent = b.sub(b.linear(x, w), half_square);
  return b.mul(b.unary(Opcode::exp, exponent), 1 / std::sqrt(static_cast<double>(b.shape(w).at(0))));
}

/// With phi the features of k and q, and m = width / 2: a = v + proj(phi(q) (phi(k)^T v) / (phi(q) sum of
/// phi(k))). Returns a + mlp(norm2(a)). [B, N, in] -> [B, N, width].
Value performer_layer(Layers& net, Value x, std::int64_t width, double dropout) {
  Builder& b = net.builder();
  const Value kqv = net.linear("kqv", net.layer_norm("norm1", x, {.epsilon = kT2tEpsilon}), 3 * width);
  const Value k = b.slice(kqv, 2, 0, width), q = b.slice(kqv, 2, width, 2 * width);
  const Value v = b.slice(kqv, 2, 2 * width, 3 * width);
  const Value w = net.frozen("w", {width / 2, width},
                             orthogonal_features(b.location() + ".w", width / 2, width), "features");
  const Value of_keys = positive_features(b, k, w), of_queries = positive_features(b, q, w);
  const Value total = b.sum(b.mul(of_queries, b.sum(of_keys, {1})), {-1});
  const Value y = b.div(b.matmul(of_queries, b.matmul(of_keys, v, true, false)), b.add(total, 1e-8));
  const Value a = b.add(v, net.dropout("dp", net.linear("proj", y, width), dropout));
  const Value normed = net.layer_norm("norm2", a, {.epsilon = kT2tEpsilon});
  const Builder::Scope mlp(b, "mlp");
  const Value hidden = b.emit(Opcode::gelu, {net.linear("0", normed, width, {.role = "fc1"})});
  return b.add(a, net.dropout("3", net.linear("2", hidden, width, {.role = "fc2"}), dropout));
}

/// With a = v + proj(softmax(q k^T / sqrt(in)) v), returns a + mlp(norm2(a)). [B, N, in] -> [B, N, width].
/// The scale is that of the input width, as in the authors' code.
Value transformer_layer(Layers& net, Value x, std::int64_t width) {
  Builder& b = net.builder();
  const ir::Shape shape = b.shape(x);
  const ir::Shape one_head = {shape.at(0), 1, shape.at(1), width};
  const Value normed = net.layer_norm("norm1", x, {.epsilon = kT2tEpsilon});
  Value a;
  {
    const Builder::Scope attn(b, "attn");
    const Value qkv = net.linear("qkv", normed, 3 * width, {.bias = false});
    Value part[3];
    for (std::int64_t i = 0; i < 3; ++i)
      part[i] = b.reshape(b.slice(qkv, 2, i * width, (i + 1) * width), one_head);
    const double scale = 1 / std::sqrt(static_cast<double>(shape.at(2)));
    const Value y = b.emit(Opcode::attention, {part[0], part[1], part[2]}, {{"scale", scale}});
    const ir::Shape tokens = {shape.at(0), shape.at(1), width};
    a = b.add(b.reshape(part[2], tokens), net.linear("proj", b.reshape(y, tokens), width));
  }
  const Value mixed = net.layer_norm("norm2", a, {.epsilon = kT2tEpsilon});
  const Builder::Scope mlp(b, "mlp");
  return b.add(a, net.mlp(mixed, width, "gelu", 0));
}

/// Returns the tokens [B, (image / 16)^2, dim].
Value tokens_of(Layers& net, Value image, const ir::Attributes& options) {
  Builder& b = net.builder();
  const Builder::Scope scope(b, "tokens_to_token");
  const std::int64_t width = options.get_int("token_dim");
  const bool performer = options.get_string("tokens_type") == "performer";
  std::int64_t side = options.get_int("image") / 4;
  Value tokens = window_tokens(b, image, 7, 4, 2);
  for (const std::string_view name : {"attention1", "attention2"}) {
    {
      const Builder::Scope layer(b, name);
      tokens = performer ? performer_layer(net, tokens, width, options.get_double("token_dropout"))
                         : transformer_layer(net, tokens, width);
    }
    tokens = window_tokens(b, square_maps(b, tokens, side), 3, 2, 1);
    side /= 2;
  }
  return net.linear("project", tokens, options.get_int("dim"));
}

void build_t2t(Layers& net, const ir::Attributes& options, std::int64_t batch) {
  check_t2t(options);
  const std::int64_t dim = options.get_int("dim"), depth = options.get_int("depth");
  const std::int64_t heads = options.get_int("heads"), size = options.get_int("image");
  const double dropout = options.get_double("dropout"), drop_path = options.get_double("drop_path");
  Builder& b = net.builder();
  const Value image = b.argument("image", {ir::DType::f32, {batch, options.get_int("channels"), size, size}});
  const Value tokens = tokens_of(net, image, options);
  const Value cls = net.parameter("cls_token", {1, 1, dim}, kTruncNormal, "cls_token");
  const Value parts[] = {b.broadcast(cls, {batch, 1, dim}), tokens};
  Value x = b.concat(parts, 1);
  const Value positions =
      net.frozen("pos_embed", {1, b.shape(x).at(1), dim}, {ir::InitKind::sinusoid}, "pos_embed");
  x = net.dropout("pos_drop", b.add(x, positions), dropout);
  for (std::int64_t i = 0; i < depth; ++i) {
    const Layers::Block block(net, fmt::format("blocks.{}", i));
    const double rate = drop_path_rate(drop_path, i, depth);
    x = net.join(
        "attn", x, [&](Value z) { return net.layer_norm("norm1", z, {.epsilon = kT2tEpsilon}); },
        [&](Value z) { return net.attention(z, heads, dropout, /*qkv_bias=*/false); },
        {.last = "proj", .drop_path = rate, .heads = heads});
    x = net.join(
        "mlp", x, [&](Value z) { return net.layer_norm("norm2", z, {.epsilon = kT2tEpsilon}); },
        [&](Value z) { return net.mlp(z, backbone_units(options), "gelu", dropout); },
        {.last = "fc2", .drop_path = rate, .heads = heads});
  }
  // The norm works on each token alone, so the class token is taken before it.
  const Value pooled =
      net.layer_norm("norm", b.reshape(b.slice(x, 1, 0, 1), {batch, dim}), {.epsilon = kT2tEpsilon});
  net.classify(pooled, options.get_int("classes"),
               [&](Value z, std::int64_t classes) { return net.linear("head", z, classes); });
}

ir::Attributes t2t(std::int64_t dim, std::int64_t depth, std::int64_t heads) {
  return {{"dim", dim},   {"depth", depth}, {"heads", heads}, {"mlp_ratio", 3.0},
          {"image", 224}, {"channels", 3},  {"classes", 1000}};
}

}  // namespace

const Family kT2tVit{
    .name = "t2t_vit",
    .doc = "tokens-to-token ViT: overlapping windows become tokens in three steps, with attention between",
    .schema =
        {dim_parameter(64), depth_parameter(4), heads_parameter(2), mlp_ratio_parameter(3),
         ir::enum_parameter(
             "tokens_type", {"performer", "transformer"},
             "attention between the tokenisation steps; performer: random features; transformer: softmax"),
         ir::int_parameter("token_dim", 64, "width between the tokenisation steps").at_least(2).at_most(4096),
         ir::float_parameter("token_dropout", 0.1,
                             "dropout rate after attn.proj and the MLP of performer layers")
             .at_least(0)
             .below(1),
         image_parameter(32, "; a multiple of 16"), channels_parameter(3), classes_parameter(),
         drop_path_parameter(),
         ir::float_parameter(
             "dropout", 0, "dropout rate after the position embedding, attn.proj and both layers of the MLP")
             .at_least(0)
             .below(1)},
    .build = build_t2t,
    .backbone = {{"classes", 0}},
    .variants = {
        {"t2t_vit_14", t2t(384, 14, 6)}, {"t2t_vit_19", t2t(448, 19, 7)}, {"t2t_vit_24", t2t(512, 24, 8)}}};

}  // namespace rewire::models
