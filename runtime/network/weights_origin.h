// The network that a file of weights belongs to: the metadata `rewire` of safetensors, one JSON object.
//
//   {"rewire": "0.1.0", "model": "vit", "options": {"depth": "12", ...},
//    "plugins": [{"name": "gain", "version": "1.0.0", "values": {"factor": "0.5", ...}}],
//    "classes": ["cat", ...], "normalisation": {"mean": "[0.5]", "std": "[0.5]"},
//    "forward": "<BLAKE3 of the rewritten forward>"}
//
// A strategy changes the function but often no name or shape, so only this distinguishes its weights from
// another strategy's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/network/run_programs.h"
#include "runtime/recipe/recipe.h"

namespace rewire::runtime {

struct WeightsOrigin {
  struct Strategy {
    std::string name, version;
    std::map<std::string, std::string> values;
  };
  std::string rewire, model;
  std::map<std::string, std::string> options, normalisation;
  std::vector<Strategy> plugins;
  std::vector<std::string> classes;  // of the data that it was trained on, if they have names
  /// A digest of `forward` for one image, as evaluated: rewritten, simplified, without locations.
  std::string forward;
};

/// Returns the origin, which is equal for the same network in every process. It has no times, paths, seeds
/// or precision.
WeightsOrigin origin_of(const Recipe& recipe, const NetworkSource& source, std::int64_t epoch,
                        const std::vector<std::string>& classes = {});

/// The key of the metadata.
inline constexpr const char* kOriginKey = "rewire";

/// Returns the metadata of a file of weights: {"format": "pt", "rewire": …}.
std::map<std::string, std::string> origin_metadata(const WeightsOrigin& origin);

/// Returns nothing if the file has no origin. Throws UserError on metadata that Rewire did not write.
std::optional<WeightsOrigin> read_origin(const std::map<std::string, std::string>& metadata,
                                         const std::string& file);

/// Logs a warning if images are normalised differently from those that the weights were trained on.
void compare_normalisation(const WeightsOrigin& there, const WeightsOrigin& here, const std::string& file);

/// Compares the file's metadata with `wanted`. Returns "" for the same function; else a remark that the file
/// has no origin, or is of another model, other options or another epoch. Throws UserError if its plugins or
/// their values differ; with `other_strategy` it returns that as the remark.
std::string check_origin(const std::map<std::string, std::string>& metadata, const std::string& file,
                         const WeightsOrigin& wanted, bool other_strategy);

}  // namespace rewire::runtime
