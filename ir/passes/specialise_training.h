// is_training = true | false, so that dropout and its like fold away in programs that don't train.
//
// A function trains if the module attribute "training" (function names joined by '+') lists it; without that
// attribute, if PassContext::training says so.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void specialise_training(Module& module, PassContext& context);

}  // namespace rewire::ir
