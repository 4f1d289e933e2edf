// Programs that look into a network's blocks (programs/diagnose_blocks.h): what stands at a block's entrance,
// and the rows of the Jacobian of a block, or of one join of it, as products with cotangents.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"
#include "programs/diagnose_blocks.h"

namespace rewire::runtime {

using programs::Block;
using programs::find_blocks;

/// The part of a network between two values: `to` as a function of what takes the place of all of `from`.
struct Section {
  std::string name;  // of its program
  std::vector<ir::Value> from;
  ir::Value to;
  std::string at;  // the result of `probe` that says where to differentiate
};
/// "block.B": from entrance to exit of block B, counted from 0.
Section block_section(const Block& block, std::size_t index);
/// "join.B.J": the join's value by its branch's input, which also takes the place of the stream: without a
/// shortcut the branch alone, with one the branch plus the identity. That is the block of the paper's
/// analysis, which has no norm before its branch.
Section join_section(const ir::Function& forward, const Block& block, std::size_t index, std::size_t join);

/// Adds `probe`: forward, with the results "stream.B" (the entrance of block B), "input.B.J" (of its join J's
/// branch) and "query.B.A", "key.B.A" (of its attention op A) instead of its own.
void add_probe_program(ir::Module& module, const std::vector<Block>& blocks);

/// Adds the section's program (at, cotangent) -> (row): for each sample of the batch J^T c, J being the
/// derivative of `to` by `from` and c the sample of `cotangent`, if samples do not mix. False, and nothing is
/// added, where `to` also depends on an argument of the network in another way.
bool add_jacobian_program(ir::Module& module, const Section& section);

}  // namespace rewire::runtime
