// Pointer tables: launches of one kernel structure between which nothing depends become one launch over
// several lists of buffers. A training step is full of them: the last sums of the gradients of norms and
// biases, what the gradient's norm adds up of each parameter, one update a parameter. None of them does
// much, and each costs a GPU a few microseconds to start.
//
// In: launches in execution order. Out: the same launches, some of them members of a table; every member
// still runs after all that it reads, before what overwrites that, and between the writes around its own.
// What depends on what is told by whole buffers, so a parameter that is updated in place is passed by no
// launch that reads it.
//
// A table stands where its first or its last member stood, where less memory is held for less time. Members
// stay apart where they would hold a tensor of more than `table_bytes` any longer than it was: read from
// memory instead of a cache, it costs more than the launch that was spared. Nor do they hold more memory at
// any launch than the program's peak was before, and `table_bytes`.
#pragma once

#include "codegen/program.h"

namespace rewire::codegen {

void merge_launches(Program& program, const WorkGrain& grain);

}  // namespace rewire::codegen
