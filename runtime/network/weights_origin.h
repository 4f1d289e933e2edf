// What a file of weights is the weights of: the metadata `rewire` of safetensors, one JSON object.
//
//   {"rewire": "0.1.0", "model": "vit", "options": {"depth": "12", ...},
//    "plugins": [{"name": "gain", "version": "1.0.0", "values": {"factor": "0.5", ...}}],
//    "classes": ["cat", ...], "normalisation": {"mean": "[0.5]", "std": "[0.5]"},
//    "forward": "<BLAKE3 of the rewritten forward>"}
//
// A strategy changes the function and often not one name or shape, so that only this tells its weights from another's.
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
  std::vector<std::string> classes;  // of the data that it was trained on, where they name them
  /// A digest of `forward` for one image as it is evaluated: rewritten, simplified, without places.
  std::string forward;
};

/// The same network has the same origin in every process; times, paths, seeds and precision are not part of it.
WeightsOrigin origin_of(const Recipe& recipe, const NetworkSource& source, std::int64_t epoch,
                        const std::vector<std::string>& classes = {});

/// The key of the metadata.
inline constexpr const char* kOriginKey = "rewire";

/// Of a file of weights: {"format": "pt", "rewire": …}.
std::map<std::string, std::string> origin_metadata(const WeightsOrigin& origin);

/// Nothing where a file does not say. UserError on metadata that are none of ours.
std::optional<WeightsOrigin> read_origin(const std::map<std::string, std::string>& metadata,
                                         const std::string& file);

/// Says in a line of the log where images are normalised otherwise than those that the weights were trained on.
void compare_normalisation(const WeightsOrigin& there, const WeightsOrigin& here, const std::string& file);

/// For a network of `wanted`, what is to be said of the file: that it does not say what it is of, or is of another model,
/// other options or another epoch; "" where it is of the same function. UserError where its plugins are others, or have
/// other values, unless `other_strategy`: then that is what is said.
std::string check_origin(const std::map<std::string, std::string>& metadata, const std::string& file,
                         const WeightsOrigin& wanted, bool other_strategy);

}  // namespace rewire::runtime
