// A network's blocks, and the programs that look into them: what stands at a block's entrance, and the rows
// of the Jacobian of a block, or of one join of it, as products with cotangents.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/residual.h"

namespace rewire::runtime {

/// The joins of one block in the order of the network. Its entrance is the stream of the first of them, its
/// exit the value of the last.
struct Block {
  std::string name;  // "blocks.3"; "decoder_blocks.3" in the decoder
  std::vector<ir::Join> joins;
  std::vector<std::size_t> join_ops;  // body indices of their `residual` ops
  ir::Value entrance, exit;
  std::size_t first_op = 0, last_op = 0;  // body indices between which its ops stand, both included
};

std::vector<Block> find_blocks(const ir::Function& forward);

/// Body indices of the `attention` ops of a block.
std::vector<std::size_t> attention_ops(const ir::Function& forward, const Block& block);

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
