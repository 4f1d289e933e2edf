// Which plugin libraries something was made with, as checkpoints and the records of sweeps keep it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/plugin/plugin.h"

namespace rewire::runtime {

class JsonView;

/// Which library a plugin's name stood for.
struct PluginBuild {
  std::string name, version, sha256;
  bool operator==(const PluginBuild&) const = default;
};

std::vector<PluginBuild> builds_of(const std::vector<PluginHandle>& plugins);

nlohmann::ordered_json to_json(const std::vector<PluginBuild>& builds);
/// UserError on what is no such list.
std::vector<PluginBuild> builds_from_json(const JsonView& list);

}  // namespace rewire::runtime
