// Names that timm and other public code give to networks of the zoo.
#pragma once

#include <string>
#include <string_view>

namespace rewire::models {

/// Returns the zoo's name of network `name` of timm (with or without a tag such as ".augreg_in21k") or of
/// MAE's or DINO's code: "deit_tiny", or "vit_b16_224 with --set model.patch=32". Returns "" if there is
/// none or `name` is unknown.
std::string zoo_network_of(std::string_view name);

}  // namespace rewire::models
