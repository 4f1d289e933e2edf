// The backbones of the detection transformer: from an image to the tokens of its last map. Joins have the scope
// "backbone". Parameters are named by the scope of the caller and the names of public code:
//   deit_small  timm's deit_small_patch16: the patches after the last norm, without the class token
//   pvt_small   PVT's: the tokens of the fourth stage after the last norm, without the class token
//   resnet50    torchvision's, with frozen norms (stride in the 3 x 3 convolution): the maps of layer4
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/layers.h"

namespace rewire::models {

struct DetrBackbone {
  std::string name;
  std::int64_t height = 0, width = 0;  // of the image: multiples of stride()
  // Width, blocks and heads: one entry, or one per stage. resnet50 has one width, that of the first stage's
  // 3 x 3 convolutions, and no heads.
  std::vector<std::int64_t> dims, depths, heads = {};
  double drop_path = 0;

  /// Returns how many pixels per side of the image become one token.
  std::int64_t stride() const { return name == "deit_small" ? 16 : 32; }
  std::int64_t rows() const { return height / stride(); }
  std::int64_t columns() const { return width / stride(); }
};

/// Returns the backbone of that name with its published width, depth and heads.
DetrBackbone published_backbone(const std::string& name);

/// Returns tokens [batch, rows columns, channels] of `image` [batch, C, height, width]. `valid` f32 [batch,
/// rows columns] is 0 for padding, which deit_small hides from all tokens. The others see it, through
/// convolutions and reduced keys.
ir::Value backbone_tokens(Layers& layers, const DetrBackbone& settings, ir::Value image, ir::Value valid);

}  // namespace rewire::models
