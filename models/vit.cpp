// The pre-norm vision transformer (Dosovitskiy et al., ICLR 2021) with timm's blocks, parameter names,
// layouts and initialisation:
//   z = [cls; patches W^T + b] + pos;  z = z + attn(LN(z)), z = z + mlp(LN(z)) per block;  head(pool(LN(z)))
#include <fmt/format.h>

#include "ir/error.h"
#include "models/model.h"

namespace rewire::models {

extern const Family kVit;

namespace {

using ir::Builder;
using ir::Value;

/// timm: int(dim * mlp_ratio), toward zero.
std::int64_t hidden_units(const ir::Attributes& options) {
  return static_cast<std::int64_t>(static_cast<double>(options.get_int("dim")) *
                                   options.get_double("mlp_ratio"));
}

void check(const ir::Attributes& options) {
  const std::int64_t dim = options.get_int("dim"), heads = options.get_int("heads");
  const std::int64_t image = options.get_int("image"), patch = options.get_int("patch");
  if (dim % heads != 0) {
    user_error("model.dim={} is no multiple of model.heads={}; set dim to heads times a head's width", dim,
               heads);
  }
  if (image % patch != 0)
    user_error("model.image={} is no multiple of model.patch={}; patches must tile the image", image, patch);
  if (hidden_units(options) < 1) {
    user_error("model.dim={} times model.mlp_ratio={} leaves no hidden unit; raise one of them", dim,
               options.get_double("mlp_ratio"));
  }
}

void build_vit(Layers& net, const ir::Attributes& options, std::int64_t batch) {
  check(options);
  const std::int64_t dim = options.get_int("dim"), depth = options.get_int("depth");
  const std::int64_t heads = options.get_int("heads"), hidden = hidden_units(options);
  const std::int64_t size = options.get_int("image"), patch = options.get_int("patch");
  const std::int64_t patches = (size / patch) * (size / patch);
  const bool has_cls = options.get_string("pool") == "token";
  const std::string& act_layer = options.get_string("act_layer");
  const double dropout = options.get_double("dropout"), drop_path = options.get_double("drop_path");
  Builder& b = net.builder();

  const Value image = b.argument("image", {ir::DType::f32, {batch, options.get_int("channels"), size, size}});
  Value cls;
  if (has_cls) cls = net.parameter("cls_token", {1, 1, dim}, {ir::InitKind::normal, 1e-6}, "cls_token");
  const Value pos =
      net.parameter("pos_embed", {1, patches + (has_cls ? 1 : 0), dim}, kTruncNormal, "pos_embed");
  Value x = net.patch_embed("patch_embed", image, dim, patch);
  if (has_cls) {
    const Value parts[] = {b.broadcast(cls, {batch, 1, dim}), x};
    x = b.concat(parts, 1);
  }
  x = net.dropout("pos_drop", b.add(x, pos), dropout);

  for (std::int64_t i = 0; i < depth; ++i) {
    const Layers::Block block(net, fmt::format("blocks.{}", i));
    const double rate = drop_path_rate(drop_path, i, depth);
    x = net.join(
        "attn", x, [&](Value z) { return net.layer_norm("norm1", z); },
        [&](Value z) { return net.attention(z, heads, dropout); },
        {.last = "proj", .drop_path = rate, .heads = heads});
    x = net.join(
        "mlp", x, [&](Value z) { return net.layer_norm("norm2", z); },
        [&](Value z) { return net.mlp(z, hidden, act_layer, dropout); },
        {.last = "fc2", .drop_path = rate, .heads = heads});
  }

  // The norm works token by token, so the cls token is taken before it: the same numbers as timm's, which
  // norms all tokens and takes one.
  const Value pooled = has_cls ? net.layer_norm("norm", b.reshape(b.slice(x, 1, 0, 1), {batch, dim}))
                               : b.reshape(b.mean(net.layer_norm("norm", x), {1}), {batch, dim});
  net.begin_layer();  // the norm is of the last block's, as timm groups them
  b.result("logits", net.linear("head", pooled, options.get_int("classes")));
}

ir::Attributes vit(std::int64_t dim, std::int64_t depth, std::int64_t heads, std::int64_t patch,
                   std::int64_t image, std::int64_t channels, std::int64_t classes) {
  return {{"dim", dim},     {"depth", depth},       {"heads", heads},    {"patch", patch},
          {"image", image}, {"channels", channels}, {"classes", classes}};
}

}  // namespace

// The bounds keep every product of extents far from overflow; no network of this kind comes near.
const Family kVit{
    .name = "vit",
    .doc = "the pre-norm vision transformer, as timm builds it",
    .schema = {ir::int_parameter("dim", 192, "width of the residual stream").at_least(1).at_most(65536),
               ir::int_parameter("depth", 12, "blocks").at_least(1).at_most(4096),
               ir::int_parameter("heads", 3, "of attention; must divide dim").at_least(1).at_most(65536),
               ir::float_parameter("mlp_ratio", 4, "hidden units of the MLP, in dims").above(0).at_most(64),
               ir::int_parameter("patch", 4, "pixels a side; must divide image").at_least(1).at_most(16384),
               ir::int_parameter("image", 28, "pixels a side").at_least(1).at_most(16384),
               ir::int_parameter("channels", 1, "of the image").at_least(1).at_most(4096),
               ir::int_parameter("classes", 10, "logits").at_least(1).at_most(1e7),
               ir::enum_parameter("pool", {"token", "avg"},
                                  "what the head sees: the class token, or the mean of the patches' tokens"),
               ir::enum_parameter("act_layer", {"gelu", "gelu_tanh"},
                                  "of the MLP, as timm names it: gelu is by erf"),
               ir::float_parameter("drop_path", 0, "rate of the last block, linear from 0 at the first")
                   .at_least(0)
                   .below(1),
               ir::float_parameter("dropout", 0,
                                   "after the position embedding, attn.proj, and both layers of the MLP")
                   .at_least(0)
                   .below(1)},
    .build = build_vit,
    .variants = {{"vit_tiny_28", vit(192, 12, 3, 4, 28, 1, 10)},
                 {"vit_s_cifar", vit(384, 6, 6, 4, 32, 3, 10)},
                 {"vit_s16_224", vit(384, 12, 6, 16, 224, 3, 1000)},
                 {"vit_b16_224", vit(768, 12, 12, 16, 224, 3, 1000)}}};

}  // namespace rewire::models
