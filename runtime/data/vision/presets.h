// Presets: named values of [transforms] from papers, by transforms.preset. The recipe's own values override
// them. Each is one row of presets.cpp.
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
  std::vector<ViewSpec> views = {};  // used if the recipe has none
};

/// Returns the presets; the first is "none", without values.
std::span<const TransformPreset* const> transform_presets();
/// Returns the preset of this name. Throws UserError if there is none.
const TransformPreset& find_preset(std::string_view name);

/// Returns `base` overridden by `values`.
ir::Attributes overlay(ir::Attributes base, const ir::Attributes& values);

}  // namespace rewire::runtime
