// Before fusion: the few rewrites that make every op either fusible, a shape op that costs nothing, or a
// call.
//
//   scatter_add, sort      -> compare, select, sum: fusible (indexed.h)
//   equal views of one call's result -> one of them, which the call can then write
//   f32(x of 16 bits)      -> one cast a reader, so that kernels read x and its f32 is never stored
//   argmax(x)              -> max, compare, index, max: fusible
//   pad(a) + pad(b) + …    -> concat(a, b, …), where the padded windows tile one axis (the VJP of slices)
//   a result, or an operand of a concat, that no op of its own computes -> a copy op
#pragma once

#include <set>
#include <vector>

#include "codegen/program.h"
#include "ir/module.h"

namespace rewire::codegen {

struct Prepared {
  ir::Module module;  // holds the function alone
  /// By body index: a shape op that must be carried out (a copy kernel unless storage is forwarded).
  std::vector<bool> copy;

  const ir::Function& function() const { return module.functions.front(); }
};

void prepare(Prepared& prepared, const FuseOptions& options = {});

/// Shape ops that are only another way to look at their operand.
bool is_view(ir::Opcode code);
/// Ops that become part of a tile kernel.
bool is_fusible(ir::Opcode code);
/// Leaves: in memory before the program starts (parameters, constants with values) or made where they are
/// used (constants, iota).
bool is_leaf(ir::Opcode code);

}  // namespace rewire::codegen
