// Pointer tables (horizontal fusion): independent launches of one kernel structure become one launch over
// several lists of buffers. A training step has many of them: the last sums of the gradients of norms and
// biases, each parameter's share of the gradient norm, one update per parameter. Each does little, and costs
// a GPU a few microseconds to start.
//
// In: launches in execution order. Out: the same launches, some of them members of a table. Every member
// still runs after all that it reads, before what overwrites that, and between the writes around its own.
// Dependences are by whole buffers, so no launch that reads a parameter is moved past its update in place.
//
// A table takes the place of its first or its last member, whichever holds less memory for less time.
// Members stay apart if a tensor of more than `table_bytes` would be held longer: reading it from memory
// instead of a cache costs more than the launch saves. They also stay apart if the memory held at any launch
// would exceed the program's former peak plus `table_bytes`.
#pragma once

#include "codegen/program.h"

namespace rewire::codegen {

void merge_launches(Program& program, const WorkGrain& grain);

}  // namespace rewire::codegen
