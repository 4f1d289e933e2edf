// Compares two modules as a unified diff for people.
#pragma once

#include <string>

#include "ir/module.h"

namespace rewire::runtime {

/// Returns the declarations that differ, then the changed lines of each function, with some lines around
/// them and their places in "@@ … @@". Ops are aligned as in align.h. "" if nothing differs.
std::string module_diff(const ir::Module& before, const ir::Module& after);

}  // namespace rewire::runtime
