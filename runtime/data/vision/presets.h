// Values of [transforms] that papers' recipes have in common, under a name: transforms.preset. What a recipe says
// itself counts instead. A preset is one row of presets.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attribute.h"
#include "runtime/data/pipeline.h"

namespace rewire::runtime {

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
