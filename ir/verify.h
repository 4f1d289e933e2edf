// The verifier: an executable statement of what a module is. Run after parsing, after every plugin rewrite,
// and after every pass in debug builds and CI.
//
//  V1  names of parameters, functions, arguments and results are unique and not empty
//  V2  every value is defined exactly once, before its first use; every id is in range
//  V3  operand and result counts fit the op table
//  V4  attributes are known, complete and of the right kind
//  V5  result types equal what the shape rule infers (for typed ops: are accepted by it)
//  V6  param and update name a parameter of the module; types agree
//  V7  every update follows all reads (`param`) of its state; at most one update a name and function
//  V8  a residual's stream, slots, paths and result have one shape and dtype; slot ownership is consistent
//  with the operands V9  extents are >= 1 and element counts stay below 2^40 V10 a function's results are
//  values it defines; a stream name of a random op is not empty
#pragma once

#include "ir/module.h"

namespace rewire::ir {

/// UserError naming the invariant, function, op and types of the first violation: "V5: …".
void verify(const Module& module);

}  // namespace rewire::ir
