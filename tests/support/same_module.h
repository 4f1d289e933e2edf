// Structural equality of modules: everything but value ids, which are compared in order of definition, and
// source lines. Doubles are compared bit for bit.
#pragma once

#include "ir/module.h"

namespace rewire::testing {

bool same_module(const ir::Module& a, const ir::Module& b);

}  // namespace rewire::testing
