// Before fusion: the few rewrites that make every op either fusible, a shape op that costs nothing, or a
// call.
//   f32(x of 16 bits)             -> one cast a reader, so that kernels read x and its f32 is never stored
//   argmax(x)                     -> max, compare, index, max: fusible
//   pad(a) + pad(b) + …           -> concat(a, b, …)            where the padded windows tile one axis (the
//   VJP of slices) results and concat operands   -> a copy op where the value is not computed by an op of its
//   own
#pragma once

#include <set>
#include <vector>

#include "ir/module.h"

namespace rewire::codegen {

struct Prepared {
  ir::Module module;  // holds the function alone
  std::vector<bool>
      copy;  // by body index: a shape op that must be carried out (a copy kernel unless storage is forwarded)

  const ir::Function& function() const { return module.functions.front(); }
};

Prepared prepare(const ir::Module& module, const ir::Function& function);

/// Shape ops that are only another way to look at their operand.
bool is_view(ir::Opcode code);
/// Ops that become part of a tile kernel.
bool is_fusible(ir::Opcode code);
/// Leaves: in memory before the program starts (parameters, constants with values) or made where they are
/// used (constants, iota).
bool is_leaf(ir::Opcode code);

}  // namespace rewire::codegen
