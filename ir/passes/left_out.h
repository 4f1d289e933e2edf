// Passes that a pipeline leaves out, by name. None of them may change what is computed: the tests leave out
// one after the other, and so finds out who blames a pass.
#pragma once

#include <set>
#include <string>

namespace rewire::ir {

using LeftOut = std::set<std::string, std::less<>>;

}  // namespace rewire::ir
