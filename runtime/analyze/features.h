// A program that computes the features of a network, after a block or after the last norm. They are the
// class token, the mean of the patches, all patches, or the keys of attention.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::runtime {

/// The kinds of features. class: the class token [batch, width]. mean: the mean of the patch tokens, or of a
/// map's pixels, [batch, width]. tokens: the patch tokens, or a map's pixels row by row, [batch, patches,
/// width]. keys: the keys of attention for each patch, with the heads concatenated, [batch, patches, width].
enum class FeatureKind : std::uint8_t { class_token, mean, tokens, keys };
/// Returns the names of the kinds, in that order: class, mean, tokens, keys.
std::vector<std::string> feature_kind_names();
/// Returns the kind of this name. Throws UserError for another name, with the nearest.
FeatureKind feature_kind(const std::string& name);

struct FeatureChoice {
  FeatureKind kind = FeatureKind::class_token;
  /// Blocks by name or number: 0 is the first, -1 the last. "norm" is the output of the last norm. Several
  /// layers are concatenated along the width. If empty: norm for the class token if there is a norm, the
  /// pooled map for networks of maps, else the last block.
  std::vector<std::string> layers = {};
};

/// Facts about the features that the program computes.
struct FeatureFacts {
  std::vector<std::string> layers;     // layer names; "pool": the map that the network pools
  std::int64_t blocks = 0;             // in the network
  std::int64_t width = 0;              // numbers per vector
  std::int64_t patches = 0;            // vectors per image; 0: a single one, as for class and mean
  std::int64_t rows = 0, columns = 0;  // grid of the patches; 0: no patches, or no square number of them
};

/// Adds the program features: forward's arguments -> "features", f32. Throws UserError if the network has no
/// such layer (names the nearest), no class token or no attention.
FeatureFacts add_features_program(ir::Module& module, const FeatureChoice& choice);

}  // namespace rewire::runtime
