// Values of [transforms] that papers' recipes have in common, under a name: transforms.preset. What a recipe says
// itself counts instead. A preset is one row of presets.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attribute.h"

namespace rewire::runtime {

/// [[view]]: `count` further versions of each training image, each with random numbers of its own, as a tensor f32
/// [count, batch, channels, height, width] of that name, for an objective that takes it.
struct ViewSpec {
  std::string name;
  std::int64_t count = 1;
  std::int64_t size = 0;  // height and width; 0: the network's
  ir::Attributes values;  // of [transforms], over the recipe's
  bool operator==(const ViewSpec&) const = default;
};

struct TransformPreset {
  std::string_view name, doc;
  ir::Attributes values;
  std::vector<ViewSpec> views = {};  // where the recipe has none of its own
};

/// "none", which has no values, is the first.
std::span<const TransformPreset* const> transform_presets();
/// UserError where the name is unknown.
const TransformPreset& find_preset(std::string_view name);

/// `values` over `base`.
ir::Attributes overlay(ir::Attributes base, const ir::Attributes& values);

}  // namespace rewire::runtime
