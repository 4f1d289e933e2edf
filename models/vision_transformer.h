// The pre-norm vision transformer of several families (Dosovitskiy et al., ICLR 2021), with timm's blocks
// and parameter names:
//   z = [cls; reg; patches W^T + b] + pos;  z = z + s1 attn(LN(z)), z = z + s2 mlp(LN(z)) per block;
//   head(pool(LN(z)))
// DeiT adds a distillation token (Touvron et al., ICML 2021), z = [cls; dist; reg; patches …]:
//   (head(LN(z)_cls) + head_dist(LN(z)_dist)) / 2
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/layers.h"

namespace rewire::models {

/// Settings of the network. Extents are in pixels, tokens, channels and units.
struct VisionTransformer {
  std::int64_t image = 0, channels = 0, patch = 0;
  std::int64_t image_width = 0;     // of an image that is not square, whose height is `image`; 0: `image`
  std::int64_t position_image = 0;  // the image size of pos_embed, which is resized to `image`; 0: `image`
  std::int64_t dim = 0, depth = 0, heads = 0;
  double mlp_ratio = 4;
  std::int64_t classes = 0;  // 0: no head, and the result is `features` [batch, dim] instead of `logits`

  bool class_token = true;
  bool distilled = false;       // adds dist_token after the class token, and head_dist
  std::int64_t reg_tokens = 0;  // registers (Darcet et al., ICLR 2024), after the class token
  bool no_embed_class = false;  // pos_embed covers the patches only
  bool pre_norm = false;        // norm_pre before the blocks, and no bias in the patch embedding
  bool averages = false;        // the head reads the mean of the patch tokens instead of the class token
  bool fc_norm = false;         // the last norm follows the pooling and has that name

  bool qkv_bias = true;
  std::string act_layer = "gelu";
  double init_values = 0;  // start of ls1.gamma, ls2.gamma (LayerScale, Touvron et al., ICCV 2021); 0: none
  double norm_epsilon = 1e-6;
  double head_std = 0.02;  // deviation of the head's initial weight, with LinearInit::timm
  bool block_norms_affine = true, outer_norms_affine = true;  // whether norms have weight and bias
  double drop_path = 0, dropout = 0;

  ir::Init class_token_init{ir::InitKind::normal, 1e-6};
  ir::Init position_init = kTruncNormal;
  LinearInit linear_init = LinearInit::timm;
  std::string_view scope = "encoder";  // of the joins

  std::int64_t rows() const { return image / patch; }
  std::int64_t columns() const { return (image_width == 0 ? image : image_width) / patch; }
};

/// Returns the head's input, [batch, dim], for `image` [batch, channels, image, image]. A distilled network
/// has two heads; their inputs are averaged. Throws UserError if settings conflict.
ir::Value vision_transformer_features(Layers& layers, const VisionTransformer& settings, ir::Value image);

/// Returns the patches' tokens after the last norm, [batch, rows columns, dim], for `image` [batch, channels,
/// image, image_width]. Class tokens and registers are left out. `valid` f32 [batch, rows columns] is 1 for a
/// patch and 0 for padding, which no token sees.
ir::Value vision_transformer_patches(Layers& layers, const VisionTransformer& settings, ir::Value image,
                                     ir::Value valid);

/// Builds argument `image`, ops and result `logits` or `features`. Throws UserError if settings conflict.
void build_vision_transformer(Layers& layers, const VisionTransformer& settings, std::int64_t batch);

}  // namespace rewire::models
