// Passes that a pipeline leaves out, by name. No pass may change results, so leaving them out one by one
// finds a faulty pass; the tests do so.
#pragma once

#include <set>
#include <string>

namespace rewire::ir {

using LeftOut = std::set<std::string, std::less<>>;

}  // namespace rewire::ir
