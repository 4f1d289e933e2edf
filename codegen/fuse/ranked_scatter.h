// scatter_add of rows by ranks, such as the gradient of an embedding table: y = base, then y[index[j]] += u[j] in
// the order of j. A GPU computes it in four kernels, none of which depends on the order of its threads:
//
//   key[j]    = index[j] x places + j, which are distinct
//   rank[j]   = how many keys are below key[j]
//   order[r]  = the j of rank r, and sorted[r] = index[order[r]]
//   start[m]  = how many of sorted are below m, by bisection
//   y[m]      = base + the sum of u[order[r]] for r from start[m] to start[m + 1], in this order (RowBounds)
//
// Many places are taken in parts, in their order: each part adds to the rows that the last one left.
//
// The last one reads each row of u once, and writes each row of y once. The first two compare all pairs of places,
// which for 8,192 tokens is less work than the rows; comparing each row of y with each place is `rows of y` x places
// (indexed.h).
#pragma once

#include <vector>

#include "codegen/program.h"
#include "ir/module.h"

namespace rewire::codegen {

/// Returns whether emit_ranked_scatter() computes a scatter_add: of many rows of f32 along axis 0, by one list of
/// indices in i32.
bool is_ranked_scatter(const ir::Function& function, const ir::Op& op, const WorkGrain& grain);
/// Emits its launches. What they hand over are temporaries of the program.
std::vector<KernelLaunch> emit_ranked_scatter(Program& program, const OpCall& call, const WorkGrain& grain);

}  // namespace rewire::codegen
