// Programs that examine a network's blocks (programs/diagnose_blocks.h). They give the values at a block's
// entrance, and rows of the Jacobian of a block, or of one of its joins, as products with cotangents.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"
#include "programs/diagnose_blocks.h"

namespace rewire::runtime {

using programs::Block;
using programs::find_blocks;

/// The part of a network between two values: `to` as a function of one value that replaces all of `from`.
struct Section {
  std::string name;  // the program's name
  std::vector<ir::Value> from;
  ir::Value to;
  std::string at;  // the result of `probe` that gives the point of differentiation
};
/// Returns section "block.B": from entrance to exit of block B, counted from 0.
Section block_section(const Block& block, std::size_t index);
/// Returns section "join.B.J": the join's value as a function of its branch's input, which also replaces the
/// stream. Without a shortcut that is the branch alone, with one the branch plus the identity. This is the
/// block that Ji et al. analyse (conditioning.h), which has no norm before its branch.
Section join_section(const ir::Function& forward, const Block& block, std::size_t index, std::size_t join);

/// Adds `probe`: forward with other results, "stream.B" (the entrance of block B), "input.B.J" (the input of
/// its join J's branch) and "query.B.A", "key.B.A" (of its attention op A).
void add_probe_program(ir::Module& module, const std::vector<Block>& blocks);

/// Adds the section's program (at, cotangent) -> (row). If samples do not mix, it gives J^T c for each
/// sample of the batch, where J is the derivative of `to` by `from` and c the sample of `cotangent`. Returns
/// false and adds no program if `to` also depends on an argument of the network in another way.
bool add_jacobian_program(ir::Module& module, const Section& section);

}  // namespace rewire::runtime
