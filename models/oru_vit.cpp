// The vision transformer of "Revisiting Residual Connections: Orthogonal Updates for
// Stable and Efficient Deep Networks" (Oh et al., 2025), as its authors train it with
// either kind of join. The norms in the blocks have no weight and bias, and GELU uses
// tanh. The class token starts at 0 and has no position. Linear layers start as PyTorch's,
// and the head is a norm and a linear layer. The parameters have the same names as vit's.
#include "ir/error.h"
#include "models/model.h"
#include "models/parameters.h"
#include "models/vision_transformer.h"

namespace rewire::models {

extern const Family kOruVit;

namespace {

/// Returns the side of a patch in pixels. 0 means the paper's patch for the image sizes that it trains on.
std::int64_t patch_of(std::int64_t patch, std::int64_t image) {
  if (patch != 0) return patch;
  if (image == 32) return 4;
  if (image == 64) return 8;
  if (image == 224) return 16;
  user_error("model.patch=0 means 4, 8 or 16 at model.image=32, 64 or 224; at {} set model.patch", image);
}

void build_oru_vit(Layers& net, const ir::Attributes& options, std::int64_t batch) {
  const auto count = [&](std::string_view name) { return options.get_int(name); };
  build_vision_transformer(net,
                           {.image = count("image"),
                            .channels = count("channels"),
                            .patch = patch_of(count("patch"), count("image")),
                            .dim = count("dim"),
                            .depth = count("depth"),
                            .heads = count("heads"),
                            .mlp_ratio = options.get_double("mlp_ratio"),
                            .classes = count("classes"),
                            .no_embed_class = true,
                            .act_layer = "gelu_tanh",
                            .block_norms_affine = false,
                            .class_token_init = {ir::InitKind::zeros},
                            .position_init = {ir::InitKind::normal, 0.02},
                            .linear_init = LinearInit::pytorch},
                           batch);
}

ir::Attributes oru_vit(std::int64_t dim, std::int64_t depth, std::int64_t heads) {
  return {{"dim", dim}, {"depth", depth}, {"heads", heads}};
}

}  // namespace

// The bounds are the same as vit's.
const Family kOruVit{
    .name = "oru_vit",
    .doc = "the vision transformer of the paper on orthogonal residual updates",
    .schema = {dim_parameter(384), depth_parameter(6), heads_parameter(6), mlp_ratio_parameter(4),
               ir::int_parameter("patch", 0,
                                 "side of a patch in pixels; 0: 4, 8 or 16 for an image of 32, 64 or 224")
                   .at_least(0)
                   .at_most(16384),
               image_parameter(32), channels_parameter(3), classes_parameter()},
    .build = build_oru_vit,
    .backbone = {{"classes", 0}},
    .variants = {{"oru_vit_s", oru_vit(384, 6, 6)}, {"oru_vit_b", oru_vit(768, 12, 12)}}};

}  // namespace rewire::models
