// Lowers scatter_add and sort before fusion: by counting, as pointwise ops and sums, which fuse.
//
//   scatter_add(base, index, u)
//     y[o, m, i]  = base[o, m, i] + sum over j of select(index[o, j] = m, u[o, j, i], 0)
//   sort(x)
//     rank[o, i]  = how many j precede i: x[o, j] is below x[o, i], or equal and j < i
//     index[o, r] = sum over i of select(rank[o, i] = r, i, 0)
//     value[o, r] = x[o, index[o, r]], a gather
//
// A kernel adds the base last; the evaluator begins with it. Both ops look at each pair of places, of rows
// of any number of elements. An op with too many places stays as it is.
#pragma once

#include "codegen/program.h"
#include "ir/module.h"

namespace rewire::codegen {

/// Lowers the ops of a function. A scatter_add to one number that stays gets a base of one element.
void lower_indexed(ir::Module& module, ir::Function& function, const WorkGrain& grain);

}  // namespace rewire::codegen
