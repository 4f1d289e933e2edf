// What timm and other public code call networks that the zoo has under another name, or with other options.
#pragma once

#include <string>
#include <string_view>

namespace rewire::models {

/// "deit_tiny", or "vit_b16_224 with --set model.patch=32": the network of the zoo that is `name` of timm (with or without
/// its tag, ".augreg_in21k") or of the code of MAE or DINO; "" where none is, or `name` is not understood.
std::string zoo_network_of(std::string_view name);

}  // namespace rewire::models
