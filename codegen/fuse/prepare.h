// Rewrites a function before fusion, so that every op is fusible, a shape op that costs nothing, or a call.
//
//   scatter_add, sort      -> compare, select, sum: fusible (indexed.h)
//   equal views of one call's result -> one of them, which the call can then write
//   f32(x of 16 bits)      -> one cast per reader, so that kernels read x and its f32 is never stored
//   argmax(x)              -> max, compare, index, max: fusible
//   pad(a) + pad(b) + …    -> concat(a, b, …), if the padded windows tile one axis (the VJP of slices)
//   a result, or an operand of a concat, that no op of its own computes -> a copy op
#pragma once

#include <set>
#include <vector>

#include "codegen/program.h"
#include "ir/module.h"

namespace rewire::codegen {

struct Prepared {
  ir::Module module;  // holds only the function
  /// By body index: whether a shape op must be carried out (a copy kernel unless storage is forwarded).
  std::vector<bool> copy;

  const ir::Function& function() const { return module.functions.front(); }
};

void prepare(Prepared& prepared, const FuseOptions& options = {});

/// Returns whether an op is only another view of its operand.
bool is_view(ir::Opcode code);
/// Returns whether an op becomes part of a tile kernel.
bool is_fusible(ir::Opcode code);
/// Returns whether an op is a leaf: in memory before the program starts (parameters, constants with values)
/// or made where it is used (constants, iota).
bool is_leaf(ir::Opcode code);

}  // namespace rewire::codegen
