// Makes launches of a prepared function: groups, storage, tile kernels, and the calls among them.
#pragma once

#include "codegen/fuse/prepare.h"
#include "codegen/program.h"

namespace rewire::codegen {

/// Returns the program. Throws InternalError on an op that has no lowering.
Program make_launches(Prepared prepared, const FuseOptions& options);

}  // namespace rewire::codegen
