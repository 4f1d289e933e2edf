// Structural equality of modules: everything except source lines, and with value ids compared in order of
// definition. Doubles are compared bit for bit.
#pragma once

#include "ir/module.h"

namespace rewire::testing {

bool same_module(const ir::Module& a, const ir::Module& b);

}  // namespace rewire::testing
