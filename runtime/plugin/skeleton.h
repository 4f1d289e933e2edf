// A new strategy's project: the files that `rewire plugin new NAME` writes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rewire::runtime {

/// Returns paths within the project's folder and their contents: a CMakeLists.txt, NAME.cpp (a strategy that
/// works: x' = x + c f), a test, a README. Throws UserError if `name` is no name for a plugin.
std::vector<std::pair<std::string, std::string>> plugin_skeleton(std::string_view name);

/// Writes them into a new folder `name` in `parent`, all or none. Throws UserError if that name exists
/// there, or writing fails.
void write_plugin_skeleton(const std::string& parent, const std::string& name);

}  // namespace rewire::runtime
