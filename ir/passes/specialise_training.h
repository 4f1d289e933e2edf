// Sets is_training to true or false, so that dropout and similar ops fold away in programs that do not
// train.
//
// A function trains if the module attribute "training" (function names joined by '+') lists it. Without that
// attribute PassContext::training decides.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void specialise_training(Module& module, PassContext& context);

}  // namespace rewire::ir
