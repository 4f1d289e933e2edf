// Drops ops without effect whose results nobody reads. An op without results (update) is an effect.
// Parameters stay, used or not (Module::drop_unused_parameters drops them). Value ids are renumbered in
// definition order, as in the text form.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void dce(Module& module, PassContext& context);

}  // namespace rewire::ir
