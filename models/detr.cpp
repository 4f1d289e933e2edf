// The detection transformer (Carion et al., ECCV 2020), with the names of its authors' code
// (facebookresearch/detr). forward(image, image_mask) -> (logits, boxes) of every decoder layer:
//   x = input_proj(backbone(image)),  p = sinusoids of each token's place in its image
//   encoder layer   x = LN(x + attn(x + p, x + p, x));  x = LN(x + linear2(relu(linear1(x))))
//   decoder layer   y = LN(y + attn(y + e, y + e, y));  y = LN(y + attn(y + e, x + p, x));  y = LN(y + mlp(y))
//   logits = class_embed(LN(y)),  boxes = sigmoid(bbox_embed(LN(y)))
// with attn(q, k, v), query embeddings e and y = 0 at first. Keys that are padding have a bias of -1e30.
#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "models/detr_backbones.h"
#include "models/model.h"
#include "models/parameters.h"

namespace rewire::models {

extern const Family kDetr;

namespace {

using ir::Builder;
using ir::InitKind;
using ir::Opcode;
using ir::Value;

constexpr double kDetrNormEpsilon = 1e-5;

struct Detr {
  DetrBackbone backbone;
  std::int64_t dim = 0, heads = 0, encoder_depth = 0, decoder_depth = 0, hidden = 0;
  std::int64_t queries = 0, classes = 0;
  double dropout = 0;
};

/// Returns the list option `name`, or `published` if it is empty.
std::vector<std::int64_t> entries_of(const ir::Attributes& options, std::string_view name,
                                     const std::vector<std::int64_t>& published) {
  const auto& values = options.get<ir::Doubles>(name);
  if (values.empty()) return published;
  if (values.size() != published.size()) {
    user_error("model.{} has {} entries; the backbone {} takes {}", name, values.size(),
               options.get_string("backbone"), published.size());
  }
  std::vector<std::int64_t> entries;
  for (const double value : values) {
    if (value != std::floor(value)) user_error("model.{} has {}; it takes whole numbers", name, value);
    entries.push_back(static_cast<std::int64_t>(value));
  }
  return entries;
}

DetrBackbone backbone_settings(const ir::Attributes& options) {
  DetrBackbone s = published_backbone(options.get_string("backbone"));
  s.height = options.get_int("image_height");
  s.width = options.get_int("image_width");
  s.dims = entries_of(options, "backbone_dims", s.dims);
  s.depths = entries_of(options, "backbone_depths", s.depths);
  s.heads = entries_of(options, "backbone_heads", s.heads);
  s.drop_path = options.get_double("drop_path");
  for (const auto& [name, side] : {std::pair{"image_height", s.height}, {"image_width", s.width}}) {
    if (side % s.stride() != 0)
      user_error("model.{}={} is not a multiple of {}, the stride of the backbone {}; pad images to one",
                 name, side, s.stride(), s.name);
  }
  for (std::size_t i = 0; i < s.heads.size(); ++i) {
    if (s.dims[i] % s.heads[i] != 0)
      user_error("model.backbone_dims has {}, which is not a multiple of the {} of model.backbone_heads",
                 s.dims[i], s.heads[i]);
  }
  return s;
}

Detr settings_of_detr(const ir::Attributes& options) {
  const auto count = [&](std::string_view name) { return options.get_int(name); };
  Detr s{.backbone = backbone_settings(options),
         .dim = count("dim"),
         .heads = count("heads"),
         .encoder_depth = count("encoder_depth"),
         .decoder_depth = count("decoder_depth"),
         .hidden = count("mlp_hidden"),
         .queries = count("queries"),
         .classes = count("classes"),
         .dropout = options.get_double("dropout")};
  if (s.dim % s.heads != 0)
    user_error("model.dim={} is not a multiple of model.heads={}; set dim to heads times a head's width",
               s.dim, s.heads);
  if (s.dim % 4 != 0)
    user_error("model.dim={} is not a multiple of 4, as two-dimensional sinusoids need", s.dim);
  return s;
}

/// Returns 1 for the tokens that are image and 0 for padding, f32 [B, rows, columns]: what the mask has for the
/// upper left pixel of each.
Value valid_tokens(Builder& b, const DetrBackbone& s, Value mask) {
  const std::int64_t batch = b.shape(mask).at(0), stride = s.stride();
  Value x = b.reshape(mask, {batch, s.rows(), stride, s.columns(), stride});
  x = b.reshape(b.slice(b.slice(x, 2, 0, 1), 4, 0, 1), {batch, s.rows(), s.columns()});
  return b.cast(b.compare("gt", x, b.constant_like(x, 0.5)), b.type(x).dtype);
}

/// Returns y_j = sum of x_i over i <= j, along the last axis.
Value cumulative_sum(Builder& b, Value x) {
  const ir::Shape shape = b.shape(x);
  const std::int64_t n = shape.back();
  const auto index = [&](std::int64_t axis) {
    return b.emit(Opcode::iota, {}, {{"axis", axis}}, ir::TensorType{ir::DType::i32, {n, n}});
  };
  const Value triangle = b.cast(b.compare("le", index(0), index(1)), b.type(x).dtype);
  const Value rows = b.reshape(x, {b.type(x).elements() / n, n});
  return b.reshape(b.matmul(rows, triangle), shape);
}

/// Returns sinusoids of each token's place along the last axis of `valid` [B, M, N], counted over the tokens that
/// are image and scaled to 2 pi: [B, M, N, width], sine and cosine in turn.
Value sinusoids(Builder& b, Value valid, std::int64_t width) {
  const ir::Shape shape = b.shape(valid);
  const std::int64_t n = shape.at(2);
  const Value place = cumulative_sum(b, valid);
  const Value last = b.add(b.slice(place, 2, n - 1, n), 1e-6);
  const Value scaled = b.mul(b.div(place, last), 2 * std::numbers::pi);
  const Value index =
      b.emit(Opcode::iota, {}, {{"axis", std::int64_t{0}}}, ir::TensorType{ir::DType::i32, {width / 2}});
  const double rate = -2 * std::log(10000.0) / static_cast<double>(width);
  const Value frequency = b.unary(Opcode::exp, b.mul(b.cast(index, b.type(valid).dtype), rate));
  const Value angle =
      b.mul(b.reshape(scaled, {shape[0], shape[1], n, 1, 1}), b.reshape(frequency, {width / 2, 1}));
  const Value waves[] = {b.unary(Opcode::sin, angle), b.unary(Opcode::cos, angle)};
  return b.reshape(b.concat(waves, 4), {shape[0], shape[1], n, width});
}

/// Returns the position embeddings of the tokens, [B, rows columns, dim]: first the row's half.
Value sine_positions(Builder& b, Value valid, std::int64_t dim) {
  const Builder::Scope scope(b, "position_embedding");
  const ir::Shape shape = b.shape(valid);
  const Value vertical = b.transpose(sinusoids(b, b.transpose(valid, {0, 2, 1}), dim / 2), {0, 2, 1, 3});
  const Value parts[] = {vertical, sinusoids(b, valid, dim / 2)};
  return b.reshape(b.concat(parts, 3), {shape.at(0), shape.at(1) * shape.at(2), dim});
}

/// PyTorch's MultiheadAttention with in_proj and out_proj: queries from q, keys from k, values from v, each
/// [B, tokens, dim].
Value multihead_attention(Layers& net, std::string_view name, const Detr& s, Value q, Value k, Value v,
                          Value key_bias) {
  Builder& b = net.builder();
  const Builder::Scope scope(b, name);
  const std::int64_t batch = b.shape(q).at(0), d = s.dim, width = d / s.heads;
  const Value weight = net.parameter("in_proj_weight", {3 * d, d}, {InitKind::xavier_uniform}, "qkv");
  const Value bias = net.parameter("in_proj_bias", {3 * d}, {InitKind::zeros}, "qkv");
  const auto project = [&](Value x, std::int64_t first, std::int64_t count) {
    return b.linear(x, b.slice(weight, 0, first * d, (first + count) * d),
                    b.slice(bias, 0, first * d, (first + count) * d));
  };
  const auto by_head = [&](Value x) {
    return b.transpose(b.reshape(x, {batch, b.shape(x).at(1), s.heads, width}), {0, 2, 1, 3});
  };
  Value query, key;
  if (q == k) {
    const Value both = project(q, 0, 2);
    query = b.slice(both, 2, 0, d);
    key = b.slice(both, 2, d, 2 * d);
  } else {
    query = project(q, 0, 1);
    key = project(k, 1, 1);
  }
  const Value y = net.attend(by_head(query), by_head(key), by_head(project(v, 2, 1)), key_bias);
  const Value merged = b.reshape(b.transpose(y, {0, 2, 1, 3}), {batch, b.shape(q).at(1), d});
  return net.linear("out_proj", merged, d, {.role = "proj", .start = LinearInit::xavier});
}

/// Returns LN(x + dropout(branch(x))).
Value post_norm_join(Layers& net, const Detr& s, std::string_view site, std::string_view number,
                     std::string_view last, Value x, const Layer& branch) {
  x = net.join(
      site, x, [](Value z) { return z; },
      [&](Value z) { return net.dropout(fmt::format("dropout{}", number), branch(z), s.dropout); },
      {.last = last, .heads = s.heads, .branch_in_site = false});
  return net.layer_norm(fmt::format("norm{}", number), x, {.epsilon = kDetrNormEpsilon});
}

Value feed_forward(Layers& net, const Detr& s, std::string_view number, Value x) {
  return post_norm_join(net, s, "mlp", number, "linear2", x, [&](Value z) {
    const LinearInit start = LinearInit::xavier_weight;
    z = net.relu("act", net.linear("linear1", z, s.hidden, {.role = "fc1", .start = start}));
    return net.linear("linear2", net.dropout("dropout", z, s.dropout), s.dim,
                      {.role = "fc2", .start = start});
  });
}

/// What the decoder reads from the encoder: keys, values, and the bias that hides padding.
struct DetrMemory {
  Value keys, values, bias;
};

DetrMemory encode(Layers& net, const Detr& s, Value x, Value positions, Value bias) {
  Builder& b = net.builder();
  const Builder::Scope scope(b, "encoder");
  for (std::int64_t i = 0; i < s.encoder_depth; ++i) {
    const Layers::Block block(net, fmt::format("layers.{}", i));
    x = post_norm_join(net, s, "attn", "1", "self_attn.out_proj", x, [&](Value z) {
      const Value placed = b.add(z, positions);
      return multihead_attention(net, "self_attn", s, placed, placed, z, bias);
    });
    x = feed_forward(net, s, "2", x);
  }
  return {b.add(x, positions), x, bias};
}

/// Returns the outputs of all decoder layers after the last norm, [decoder_depth, B, queries, dim].
Value decode(Layers& net, const Detr& s, const DetrMemory& memory, Value queries) {
  Builder& b = net.builder();
  const Builder::Scope scope(b, "decoder");
  const ir::Shape shape = b.shape(queries);
  Value y = b.broadcast(b.constant_like(queries, 0), shape);
  std::vector<Value> outputs;
  for (std::int64_t i = 0; i < s.decoder_depth; ++i) {
    const std::string name = fmt::format("layers.{}", i);
    // A block has one join per site, so each of the layer's two attentions begins a block.
    {
      const Layers::Block block(net, name, "decoder");
      y = post_norm_join(net, s, "attn", "1", "self_attn.out_proj", y, [&](Value z) {
        const Value placed = b.add(z, queries);
        return multihead_attention(net, "self_attn", s, placed, placed, z, {});
      });
    }
    const Layers::Block block(net, name, "decoder");
    y = post_norm_join(net, s, "attn", "2", "multihead_attn.out_proj", y, [&](Value z) {
      return multihead_attention(net, "multihead_attn", s, b.add(z, queries), memory.keys, memory.values,
                                 memory.bias);
    });
    y = feed_forward(net, s, "3", y);
    outputs.push_back(b.reshape(y, {1, shape.at(0), shape.at(1), s.dim}));
  }
  return net.layer_norm("norm", b.concat(outputs, 0), {.epsilon = kDetrNormEpsilon});
}

void detect(Layers& net, const Detr& s, Value x) {
  Builder& b = net.builder();
  net.begin_head();
  b.result("logits",
           net.linear("class_embed", x, s.classes + 1, {.role = "head", .start = LinearInit::pytorch}));
  const Builder::Scope scope(b, "bbox_embed");
  const auto layer = [&](int i, Value z, std::int64_t out) {
    return net.linear(fmt::format("layers.{}", i), z, out, {.role = "boxes", .start = LinearInit::pytorch});
  };
  x = net.relu("act0", layer(0, x, s.dim));
  x = net.relu("act1", layer(1, x, s.dim));
  b.result("boxes", b.unary(Opcode::sigmoid, layer(2, x, 4)));
}

void build_detr(Layers& net, const ir::Attributes& options, std::int64_t batch) {
  const Detr s = settings_of_detr(options);
  const DetrBackbone& backbone = s.backbone;
  Builder& b = net.builder();
  const Value image = b.argument(
      "image", {ir::DType::f32, {batch, options.get_int("channels"), backbone.height, backbone.width}});
  const Value mask = b.argument("image_mask", {ir::DType::f32, {batch, backbone.height, backbone.width}});
  const Value valid = valid_tokens(b, backbone, mask);
  const Value flat = b.reshape(valid, {batch, backbone.rows() * backbone.columns()});
  Value x;
  {
    const Builder::Scope scope(b, "backbone.0.body");
    x = backbone_tokens(net, backbone, image, flat);
  }
  net.begin_layer();
  x = net.token_patches("input_proj", x, backbone.rows(), backbone.columns(), 1, s.dim, "input_proj");
  const Value positions = sine_positions(b, valid, s.dim);
  Value queries;
  {
    const Builder::Scope scope(b, "query_embed");
    queries = net.parameter("weight", {s.queries, s.dim}, {InitKind::normal, 1}, "query_embed");
    queries = b.broadcast(queries, {batch, s.queries, s.dim});
  }
  {
    const Builder::Scope scope(b, "transformer");
    x = decode(net, s, encode(net, s, x, positions, bias_of_keys(b, flat)), queries);
  }
  detect(net, s, x);
}

/// Converts a weight's name in a file of the backbone alone to ours.
std::string detr_name_here(const std::string& name, const ir::Attributes&) {
  for (const std::string_view own :
       {"backbone.", "input_proj.", "query_embed.", "transformer.", "class_embed.", "bbox_embed."}) {
    if (name.starts_with(own)) return name;
  }
  return "backbone.0.body." + name;
}

ir::Attributes detr(std::string backbone) {
  return {{"backbone", std::move(backbone)}, {"image_height", 800}, {"image_width", 1344}};
}

ir::ParameterSpec image_side(std::string_view name, std::string_view doc) {
  return ir::int_parameter(name, 224, doc).at_least(1).at_most(16384);
}

ir::ParameterSpec backbone_list(std::string_view name, std::string_view doc, double most) {
  return ir::list_parameter(name, {}, doc).at_least(1).at_most(most);
}

}  // namespace

const Family kDetr{
    .name = "detr",
    .doc = "the detection transformer: boxes and their classes from learned queries",
    .schema =
        {ir::enum_parameter("backbone", {"deit_small", "pvt_small", "resnet50"},
                            "network of the image; deit_small: its patches; pvt_small: its last stage; "
                            "resnet50: its last maps, with frozen norms"),
         backbone_list(
             "backbone_dims",
             "widths of the backbone: one, or one per stage of pvt_small; empty: the published ones", 65536),
         backbone_list("backbone_depths",
                       "blocks of the backbone: one number, or one per stage; empty: the published ones",
                       1024),
         backbone_list("backbone_heads",
                       "attention heads of the backbone: as backbone_dims; empty: the published ones", 65536),
         ir::int_parameter("dim", 256, "width of encoder and decoder; a multiple of heads and of 4")
             .at_least(4)
             .at_most(65536),
         ir::int_parameter("heads", 8, "attention heads of encoder and decoder; a divisor of dim")
             .at_least(1)
             .at_most(65536),
         ir::int_parameter("encoder_depth", 6, "number of encoder layers").at_least(1).at_most(1024),
         ir::int_parameter("decoder_depth", 6, "number of decoder layers").at_least(1).at_most(1024),
         ir::int_parameter("mlp_hidden", 2048, "hidden units of the MLPs").at_least(1).at_most(1e6),
         ir::int_parameter("queries", 100, "most boxes of an image").at_least(1).at_most(65536),
         ir::int_parameter("classes", 91, "number of classes; one more logit says that there is no object")
             .at_least(1)
             .at_most(1e7),
         image_side("image_height",
                    "height of input images with padding; a multiple of the backbone's stride"),
         image_side("image_width", "width of input images with padding; a multiple of the backbone's stride"),
         channels_parameter(3),
         ir::float_parameter("drop_path", 0,
                             "stochastic depth of the backbone: drop rate of its last block; rates grow "
                             "linearly from 0 at its first")
             .at_least(0)
             .below(1),
         ir::float_parameter("dropout", 0.1, "dropout rate after attention and both layers of the MLPs")
             .at_least(0)
             .below(1)},
    .build = build_detr,
    .positions = PositionRule::deit,
    .name_here = detr_name_here,
    .variants = {{"detr_deit_small", detr("deit_small")},
                 {"detr_pvt_small", detr("pvt_small")},
                 {"detr_resnet50", detr("resnet50")}}};

}  // namespace rewire::models
