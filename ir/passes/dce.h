// An op whose results nothing reads, and which has no effect, is dropped: an effect is an op without results
// (update). Parameters stay, used or not (Module::drop_unused_parameters drops them). The table of values is
// compacted: ids are those of definition order, as the text form numbers them.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void dce(Module& module, PassContext& context);

}  // namespace rewire::ir
