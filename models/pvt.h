// The pyramid vision transformer without its head, for the families that build on it. pvt.cpp has its equations.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "models/layers.h"

namespace rewire::models {

struct PyramidStage {
  std::int64_t dim = 0, depth = 0, heads = 0, hidden = 0;
  std::int64_t patch = 0;              // elements along the side of one token
  std::int64_t rows = 0, columns = 0;  // of tokens
  std::int64_t reduction = 0;          // factor per side by which the maps of keys and values shrink
  bool has_cls = false;                // of the last stage, where the reduction is 1
};

/// Returns the tokens of the last stage before the last norm, [batch, 1 + rows columns, dim] if it has a class
/// token. The patches of each stage must tile its maps, and its reduction divide them. `scope` is the joins'.
ir::Value pyramid_tokens(Layers& layers, std::span<const PyramidStage> stages, ir::Value image,
                         double dropout, double drop_path, std::string_view scope = "encoder");

}  // namespace rewire::models
