// The plugin libraries that something was made with, as recorded in checkpoints and sweeps.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/plugin/plugin.h"

namespace rewire::runtime {

class JsonView;

/// The library that a plugin's name referred to.
struct PluginBuild {
  std::string name, version, sha256;
  bool operator==(const PluginBuild&) const = default;
};

std::vector<PluginBuild> builds_of(const std::vector<PluginHandle>& plugins);

nlohmann::ordered_json to_json(const std::vector<PluginBuild>& builds);
/// Throws UserError if the JSON is not such a list.
std::vector<PluginBuild> builds_from_json(const JsonView& list);

}  // namespace rewire::runtime
