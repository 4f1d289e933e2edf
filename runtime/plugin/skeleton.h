// A new strategy's project: the files that `rewire plugin new NAME` writes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rewire::runtime {

/// Paths within the project's folder and their contents.
using ProjectFiles = std::vector<std::pair<std::string, std::string>>;

/// Returns a CMakeLists.txt, NAME.cpp, a test and a README. NAME.cpp is `source`, or, if that is empty, a strategy that
/// works: x' = x + c f. Throws UserError if `name` is no name for a plugin.
ProjectFiles plugin_skeleton(std::string_view name, const std::string& source = {});

/// Writes the files into a new folder `name` in `parent`, all or none. Throws UserError if that name exists there, or
/// writing fails.
void write_plugin_skeleton(const std::string& parent, const std::string& name, const ProjectFiles& files);

}  // namespace rewire::runtime
