// The pyramid vision transformer (Wang et al., ICCV 2021), with the parameter names,
// layouts and initialisation of its authors' code. It has stages of ever smaller and
// wider maps. A stage begins with a patch embedding, its norm and a position
// embedding. The keys and values of attention come from maps that are reduced first:
//   k, v = LN(conv(z)) W, with a convolution of extent and stride r.
// The class token enters in the last stage.
#include "models/pvt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "models/model.h"
#include "models/parameters.h"

namespace rewire::models {

extern const Family kPvt;

namespace {

using ir::Builder;
using ir::Value;

constexpr double kInnerEpsilon = 1e-5;  // of the norms after convolutions: PyTorch's default

/// Returns entry i of the list parameter `name`, which must be a whole number.
std::int64_t whole_entry(const ir::Attributes& options, std::string_view name, std::size_t i) {
  const double value = options.get<ir::Doubles>(name).at(i);
  if (value != std::floor(value)) {
    user_error("model.{} has {} for stage {}; it takes whole numbers", name, ir::value_text(value), i + 1);
  }
  return static_cast<std::int64_t>(value);
}

std::vector<PyramidStage> stages_of(const ir::Attributes& options) {
  const std::size_t count = options.get<ir::Doubles>("embed_dims").size();
  if (count == 0) user_error("model.embed_dims is empty; it takes one number per stage");
  for (const std::string_view name : {"depths", "num_heads", "mlp_ratios", "patch_sizes", "sr_ratios"}) {
    const std::size_t given = options.get<ir::Doubles>(name).size();
    if (given != count) {
      user_error("model.{} has {} entries and model.embed_dims {}; give both one number per stage", name,
                 given, count);
    }
  }
  std::vector<PyramidStage> stages(count);
  std::int64_t side = options.get_int("image");
  for (std::size_t i = 0; i < count; ++i) {
    PyramidStage& s = stages[i];
    s = {.dim = whole_entry(options, "embed_dims", i),
         .depth = whole_entry(options, "depths", i),
         .heads = whole_entry(options, "num_heads", i),
         .patch = whole_entry(options, "patch_sizes", i),
         .reduction = whole_entry(options, "sr_ratios", i),
         .has_cls = i + 1 == count};
    s.hidden =
        static_cast<std::int64_t>(static_cast<double>(s.dim) * options.get<ir::Doubles>("mlp_ratios").at(i));
    if (s.dim % s.heads != 0) {
      user_error("stage {}: model.embed_dims has {}, which is not a multiple of the {} of model.num_heads",
                 i + 1, s.dim, s.heads);
    }
    if (s.hidden < 1) {
      user_error("stage {}: model.embed_dims has {}, which times model.mlp_ratios leaves no hidden unit",
                 i + 1, s.dim);
    }
    if (side % s.patch != 0) {
      user_error(
          "stage {0}: maps of {1} x {1} do not divide into patches of {2} x {2}; model.image={3} must be a "
          "multiple of the product of model.patch_sizes",
          i + 1, side, s.patch, options.get_int("image"));
    }
    s.rows = s.columns = side /= s.patch;
    if (side % s.reduction != 0) {
      user_error("stage {}: the {} of model.sr_ratios does not divide maps of {} x {}", i + 1, s.reduction,
                 side, side);
    }
    if (s.has_cls && s.reduction != 1) {
      user_error(
          "model.sr_ratios ends with {}; the last stage takes 1, because it has a class token next to its "
          "map",
          s.reduction);
    }
  }
  return stages;
}

/// Attention with the layers q, kv, proj and proj_drop, and
/// sr and norm if the maps are reduced. x is [B, N, D].
Value reduced_attention(Layers& net, const PyramidStage& s, Value x, double dropout) {
  Builder& b = net.builder();
  const ir::Shape shape = b.shape(x);
  const std::int64_t batch = shape.at(0), width = s.dim / s.heads;
  const auto by_head = [&](Value tokens) {
    return b.transpose(b.reshape(tokens, {batch, b.shape(tokens).at(1), s.heads, width}), {0, 2, 1, 3});
  };
  const Value q = by_head(net.linear("q", x, s.dim));
  Value source = x;
  if (s.reduction > 1) {
    source = net.token_patches("sr", x, s.rows, s.columns, s.reduction, s.dim, "sr");
    source = net.layer_norm("norm", source, {.epsilon = kInnerEpsilon});
  }
  const Value kv = net.linear("kv", source, 2 * s.dim);
  const Value k = by_head(b.slice(kv, 2, 0, s.dim)), v = by_head(b.slice(kv, 2, s.dim, 2 * s.dim));
  const Value merged = b.reshape(b.transpose(net.attend(q, k, v), {0, 2, 1, 3}), shape);
  return net.dropout("proj_drop", net.linear("proj", merged, s.dim), dropout);
}

/// Returns the stage's tokens [B, N, D], from the image or from the tokens of the stage before.
Value embed(Layers& net, const PyramidStage& s, const PyramidStage* before, Value x, std::string_view name) {
  Builder& b = net.builder();
  const Builder::Scope scope(b, name);
  x = before == nullptr
          ? net.patches("proj", x, s.dim, s.patch, "patch_embed")
          : net.token_patches("proj", x, before->rows, before->columns, s.patch, s.dim, "patch_embed");
  return net.layer_norm("norm", x, {.epsilon = kInnerEpsilon});
}

void build_pvt(Layers& net, const ir::Attributes& options, std::int64_t batch) {
  const std::vector<PyramidStage> stages = stages_of(options);
  const std::int64_t size = options.get_int("image");
  Builder& b = net.builder();
  const Value image = b.argument("image", {ir::DType::f32, {batch, options.get_int("channels"), size, size}});
  const Value x =
      pyramid_tokens(net, stages, image, options.get_double("dropout"), options.get_double("drop_path"));
  // The norm works on each token alone, so the class token is taken before it.
  const Value cls = b.reshape(b.slice(x, 1, 0, 1), {batch, stages.back().dim});
  net.classify(net.layer_norm("norm", cls), options.get_int("classes"),
               [&](Value z, std::int64_t classes) { return net.linear("head", z, classes); });
}

ir::Attributes pvt(ir::Doubles depths) {
  return {{"embed_dims", ir::Doubles{64, 128, 320, 512}},
          {"depths", std::move(depths)},
          {"num_heads", ir::Doubles{1, 2, 5, 8}},
          {"mlp_ratios", ir::Doubles{8, 8, 4, 4}},
          {"patch_sizes", ir::Doubles{4, 2, 2, 2}},
          {"sr_ratios", ir::Doubles{8, 4, 2, 1}},
          {"image", 224},
          {"channels", 3},
          {"classes", 1000}};
}

ir::ParameterSpec stage_list(std::string_view name, ir::Doubles values, std::string_view doc, double most) {
  return ir::list_parameter(name, std::move(values), doc).at_least(1).at_most(most);
}

}  // namespace

Value pyramid_tokens(Layers& net, std::span<const PyramidStage> stages, Value x, double dropout,
                     double drop_path, std::string_view scope) {
  Builder& b = net.builder();
  std::int64_t blocks = 0, built = 0;
  for (const PyramidStage& s : stages) blocks += s.depth;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const PyramidStage& s = stages[i];
    x = embed(net, s, i > 0 ? &stages[i - 1] : nullptr, x, fmt::format("patch_embed{}", i + 1));
    if (s.has_cls) {
      const Value cls = net.parameter("cls_token", {1, 1, s.dim}, kTruncNormal, "cls_token");
      const Value parts[] = {b.broadcast(cls, {b.shape(x).at(0), 1, s.dim}), x};
      x = b.concat(parts, 1);
    }
    // The authors' code exempts only the class token from weight decay.
    const Value pos = net.decaying(fmt::format("pos_embed{}", i + 1), {1, b.shape(x).at(1), s.dim},
                                   kTruncNormal, "pos_embed");
    x = net.dropout(fmt::format("pos_drop{}", i + 1), b.add(x, pos), dropout);
    for (std::int64_t j = 0; j < s.depth; ++j) {
      const Layers::Block block(net, fmt::format("block{}.{}", i + 1, j), scope,
                                static_cast<std::int64_t>(i));
      const double rate = drop_path_rate(drop_path, built++, blocks);
      x = net.join(
          "attn", x, [&](Value z) { return net.layer_norm("norm1", z); },
          [&](Value z) { return reduced_attention(net, s, z, dropout); },
          {.last = "proj", .drop_path = rate, .heads = s.heads});
      x = net.join(
          "mlp", x, [&](Value z) { return net.layer_norm("norm2", z); },
          [&](Value z) { return net.mlp(z, s.hidden, "gelu", dropout); },
          {.last = "fc2", .drop_path = rate, .heads = s.heads});
    }
  }
  return x;
}

const Family kPvt{
    .name = "pvt",
    .doc = "the pyramid vision transformer: maps shrink by stage, keys and values come from reduced maps",
    .schema =
        {stage_list("embed_dims", {32, 64}, "width of the residual stream, per stage", 65536),
         stage_list("depths", {2, 2}, "number of blocks, per stage", 1024),
         stage_list("num_heads", {1, 2}, "attention heads per block, per stage; divisors of embed_dims",
                    65536),
         ir::list_parameter("mlp_ratios", {4, 4},
                            "hidden width of the MLP divided by the stage's width, per stage")
             .above(0)
             .at_most(64),
         stage_list("patch_sizes", {2, 2}, "side of a patch in pixels (first stage) or tokens, per stage",
                    16384),
         stage_list(
             "sr_ratios", {2, 1},
             "side in tokens of the square that is reduced to one key and value, per stage; 1 in the last",
             16384),
         image_parameter(28, "; a multiple of the product of patch_sizes"), channels_parameter(1),
         classes_parameter(), drop_path_parameter(),
         ir::float_parameter("dropout", 0,
                             "dropout rate after position embeddings, attn.proj and both layers of the MLP")
             .at_least(0)
             .below(1)},
    .build = build_pvt,
    .backbone = {{"classes", 0}},
    .positions = PositionRule::pvt,
    .variants = {{"pvt_small", pvt({3, 4, 6, 3})}, {"pvt_medium", pvt({3, 4, 18, 3})}}};

}  // namespace rewire::models
