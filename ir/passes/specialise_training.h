// Sets is_training to true or false, as Function::trains says, so that dropout and similar ops fold away in
// programs that do not train.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void specialise_training(Module& module, PassContext& context);

}  // namespace rewire::ir
