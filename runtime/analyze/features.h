// The features of a network, as a program: what stands at the exit of a block or behind the last norm, as the class token,
// as the mean of the patches, patch by patch, or as the keys of attention.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::runtime {

/// class: the class token [batch, width]. mean: the mean of the patches' tokens, or of a map's pixels, [batch, width].
/// tokens: the patches' tokens, or a map's pixels row by row, [batch, patches, width]. keys: what attention matches
/// queries with, for each patch the heads one behind the other, [batch, patches, width].
enum class FeatureKind : std::uint8_t { class_token, mean, tokens, keys };
/// By their names, in that order: class, mean, tokens, keys.
std::vector<std::string> feature_kind_names();
/// UserError for another name, with the nearest.
FeatureKind feature_kind(const std::string& name);

struct FeatureChoice {
  FeatureKind kind = FeatureKind::class_token;
  /// Blocks by their names, by their numbers from 0 or, less than 0, from behind the last; or norm, behind the network's
  /// last norm. Several stand one behind the other in the width. None: norm for the class token where there is one, of
  /// maps what the network pools, else the last block.
  std::vector<std::string> layers = {};
};

/// What the program gives.
struct FeatureFacts {
  std::vector<std::string> layers;     // by name; "pool": what the network pools
  std::int64_t blocks = 0;             // of the network
  std::int64_t width = 0;              // numbers of a vector
  std::int64_t patches = 0;            // vectors an image; 0: one, of class and mean
  std::int64_t rows = 0, columns = 0;  // of the patches' grid; 0: they are none, or no square number
};

/// Adds the program features: forward's arguments -> "features", f32. UserError where the network has no such layer (it
/// names the nearest), no class token, no attention.
FeatureFacts add_features_program(ir::Module& module, const FeatureChoice& choice);

}  // namespace rewire::runtime
