// A new strategy's project: what `rewire plugin new NAME` writes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rewire::runtime {

/// Paths within the project's folder, and what stands in them: a CMakeLists.txt, NAME.cpp (a strategy that
/// works: x' = x + c f), a test, a README. UserError if `name` is no name for a plugin.
std::vector<std::pair<std::string, std::string>> plugin_skeleton(std::string_view name);

/// Writes them into a new folder `name` in `parent`, whole or not at all. UserError if something of that name
/// stands there, or it cannot be written.
void write_plugin_skeleton(const std::string& parent, const std::string& name);

}  // namespace rewire::runtime
