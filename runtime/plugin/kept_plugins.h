// The plugin libraries that a run is made with, as its folder keeps them: RUN/plugins.json has name, version,
// path and SHA-256 of each, RUN/plugins/ a copy. A run without plugins has neither.
#pragma once

#include <string>
#include <vector>

#include "runtime/plugin/builds.h"
#include "runtime/plugin/plugin.h"

namespace rewire::runtime {

struct RecordedPlugin {
  PluginBuild build;
  std::string path;  // where it was
  std::string copy;  // in the run folder: "plugins/gain-0123456789ab.so"
};

/// In their order; none if there is no record. UserError on one that keep_plugins() did not write.
std::vector<RecordedPlugin> recorded_plugins(const std::string& run);

/// Copies the libraries, readable by this user alone, and writes the record, in place of an earlier one. What
/// has been run is remembered (runtime/plugin/trust_list.h), so that its copy needs no other word. UserError
/// where a library is not the one any more that was loaded.
void keep_plugins(const std::string& run, const std::vector<PluginHandle>& plugins);

/// What to load for a plugin of the run: `name`, as its recipe has it, while that finds the library that the
/// run was made with; else the copy, and the log says why. Without a copy it is `name` all the same.
/// UserError on a copy that is not that library.
std::string library_of_run(const std::string& run, const RecordedPlugin& recorded, const std::string& name,
                           const std::vector<std::string>& plugin_path);

/// "SHA-256 0123456789ab then, ba9876543210 now".
std::string difference_of_builds(const PluginBuild& then, std::string_view now);

}  // namespace rewire::runtime
