// Which plugin libraries a run is made with, as its folder keeps it: RUN/plugins.json, with name, version,
// path and SHA-256 of each. A run without plugins has no such file.
#pragma once

#include <vector>

#include "runtime/plugin/plugin.h"
#include "runtime/train/run_folder.h"

namespace rewire::runtime {

constexpr const char* kPluginRecord = "plugins.json";

/// Writes the record, in place of an earlier one.
void record_plugins(const RunFolder& folder, const std::vector<PluginHandle>& plugins);

}  // namespace rewire::runtime
