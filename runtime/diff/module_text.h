// What differs between two modules, as a unified diff for people.
#pragma once

#include <string>

#include "ir/module.h"

namespace rewire::runtime {

/// Declarations that differ, then of each function the lines that do, with some lines around them and their places in
/// "@@ … @@"; ops are aligned as align.h says. "" where nothing differs.
std::string module_diff(const ir::Module& before, const ir::Module& after);

}  // namespace rewire::runtime
