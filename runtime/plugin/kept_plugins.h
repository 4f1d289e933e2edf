// The plugin libraries of a run, as its folder keeps them: RUN/plugins.json has name, version, path and
// SHA-256 of each, RUN/plugins/ a copy. A run without plugins has neither.
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

/// Returns the records in order; none if there is no file. Throws UserError on a file that keep_plugins()
/// did not write.
std::vector<RecordedPlugin> recorded_plugins(const std::string& run);

/// Copies the libraries, readable by this user alone, and replaces the record. It adds them to the trusted
/// ones (runtime/plugin/trust_list.h), so that the copies need no further consent. Throws UserError if a
/// library is no longer the one that was loaded.
void keep_plugins(const std::string& run, const std::vector<PluginHandle>& plugins);

/// Returns what to load for a plugin of the run: `name` from its recipe, if that finds the library of the
/// run; else the copy, and logs why. Without a copy it returns `name`. Throws UserError if the copy is
/// another library.
std::string library_of_run(const std::string& run, const RecordedPlugin& recorded, const std::string& name,
                           const std::vector<std::string>& plugin_path);

/// Returns "SHA-256 0123456789ab then, ba9876543210 now".
std::string difference_of_builds(const PluginBuild& then, std::string_view now);

}  // namespace rewire::runtime
