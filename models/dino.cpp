// The network of DINO (Caron et al., ICCV 2021), with the parameter names and
// initialisation of its authors' code. Its `backbone` is a vision transformer
// whose class token z gives the features. Its projection `head` is:
//   h = W3 gelu(W2 gelu(W1 z + b1) + b2) + b3,  h = h / max(|h|, 1e-12)
//   projection_k = g_k <v_k, h> / |v_k|
#include <cmath>

#include "ir/opcodes.h"
#include "models/model.h"
#include "models/parameters.h"
#include "models/vision_transformer.h"

namespace rewire::models {

extern const Family kDino;

namespace {

using ir::Builder;
using ir::InitKind;
using ir::Opcode;
using ir::Value;

constexpr double kLeastNorm = 1e-12;

/// Returns the lengths of the vectors along the last axis, which stays with extent 1.
Value lengths(Builder& b, Value x) {
  return b.unary(Opcode::sqrt, b.sum(b.mul(x, x), {-1}));
}

/// [B, in] -> [B, out]. Each row of the weight has a direction and a length of its own (weight
/// normalisation, Salimans and Kingma, NeurIPS 2016).
Value weight_normed(Layers& net, std::string_view name, Value x, std::int64_t out, bool unit_lengths) {
  Builder& b = net.builder();
  const Builder::Scope scope(b, name);
  const std::int64_t in = b.shape(x).back();
  const ir::Init ones{InitKind::ones};
  const double bound = 1 / std::sqrt(static_cast<double>(in));  // as in nn.Linear
  const Value g = unit_lengths ? net.frozen("weight_g", {out, 1}, ones, "head")
                               : net.parameter("weight_g", {out, 1}, ones, "head");
  const Value v = net.parameter("weight_v", {out, in}, {InitKind::uniform, -bound, bound}, "head");
  return b.linear(x, b.mul(v, b.div(g, lengths(b, v))));
}

Value project(Layers& net, Value features, const ir::Attributes& options) {
  Builder& b = net.builder();
  const std::int64_t hidden = options.get_int("hidden_dim");
  Value h = features;
  {
    const Builder::Scope scope(b, "mlp");
    h = b.emit(Opcode::gelu, {net.linear("0", h, hidden, {.role = "head"})});
    h = b.emit(Opcode::gelu, {net.linear("2", h, hidden, {.role = "head"})});
    h = net.linear("4", h, options.get_int("bottleneck_dim"), {.role = "head"});
  }
  const Value length = lengths(b, h);
  h = b.div(h, b.binary(Opcode::maximum, length, b.constant_like(length, kLeastNorm)));
  return weight_normed(net, "last_layer", h, options.get_int("out_dim"), options.get_bool("norm_last_layer"));
}

void build_dino(Layers& net, const ir::Attributes& options, std::int64_t batch) {
  const auto count = [&](std::string_view name) { return options.get_int(name); };
  Builder& b = net.builder();
  const VisionTransformer backbone{.image = count("image"),
                                   .channels = count("channels"),
                                   .patch = count("patch"),
                                   .position_image = count("position_image"),
                                   .dim = count("dim"),
                                   .depth = count("depth"),
                                   .heads = count("heads"),
                                   .mlp_ratio = options.get_double("mlp_ratio"),
                                   .drop_path = options.get_double("drop_path"),
                                   .class_token_init = kTruncNormal};
  const Value image =
      b.argument("image", {ir::DType::f32, {batch, backbone.channels, backbone.image, backbone.image}});
  Value features;
  {
    const Builder::Scope scope(b, "backbone");
    features = vision_transformer_features(net, backbone, image);
  }
  net.begin_layer();
  if (options.get_bool("head")) {
    const Builder::Scope scope(b, "head");
    b.result("projection", project(net, features, options));
  }
  b.result("features", features);
}

ir::Attributes dino(std::int64_t image, std::int64_t channels, std::int64_t patch, std::int64_t dim,
                    std::int64_t depth, std::int64_t heads) {
  return {{"image", image}, {"channels", channels}, {"patch", patch},
          {"dim", dim},     {"depth", depth},       {"heads", heads}};
}

ir::Attributes small_dino() {
  ir::Attributes values = dino(28, 1, 4, 192, 6, 3);
  values.set("hidden_dim", std::int64_t{512});
  values.set("bottleneck_dim", std::int64_t{128});
  values.set("out_dim", std::int64_t{1024});
  return values;
}

}  // namespace

const Family kDino{
    .name = "dino",
    .doc = "the vision transformer and projection head of self-distillation without labels",
    .objective = "dino",
    .schema =
        {dim_parameter(384), depth_parameter(12), heads_parameter(6), mlp_ratio_parameter(4),
         patch_parameter(16), image_parameter(224), channels_parameter(3),
         ir::int_parameter(
             "position_image", 0,
             "side in pixels of the image that pos_embed was trained for, from which it is resized; 0: image")
             .at_least(0)
             .at_most(16384),
         drop_path_parameter(),
         ir::bool_parameter("head", true,
                            "whether the model has a projection head; false: the result is the features"),
         ir::int_parameter("hidden_dim", 2048, "width of the projection head's hidden layers")
             .at_least(1)
             .at_most(65536),
         ir::int_parameter("bottleneck_dim", 256, "input width of the projection head's last layer")
             .at_least(1)
             .at_most(65536),
         ir::int_parameter("out_dim", 65536, "output width of the projection head").at_least(2).at_most(1e7),
         ir::bool_parameter("norm_last_layer", true,
                            "keep each row of the last layer at length 1 (weight_g is not trained)")},
    .build = build_dino,
    .backbone = {{"head", false}},
    .positions = PositionRule::deit,
    .variants = {{"dino_vit_tiny_28", small_dino()},
                 {"dino_vit_s16", dino(224, 3, 16, 384, 12, 6)},
                 {"dino_vit_s8", dino(224, 3, 8, 384, 12, 6)},
                 {"dino_vit_b16", dino(224, 3, 16, 768, 12, 12)},
                 {"dino_vit_b8", dino(224, 3, 8, 768, 12, 12)}}};

}  // namespace rewire::models
