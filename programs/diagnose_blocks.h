// Finds the blocks of a network by its joins: entrances and exits, attention, and the image tokens of a
// stream.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/residual.h"

namespace rewire::programs {

/// The joins of one block in network order. Its entrance is the first join's stream, its exit the last
/// join's result.
struct Block {
  std::string name;  // "blocks.3"; "decoder_blocks.3" in the decoder
  std::vector<ir::Join> joins;
  std::vector<std::size_t> join_ops;  // body indices of their `residual` ops
  ir::Value entrance, exit;
  std::size_t first_op = 0, last_op = 0;  // body indices of its first and last op, both included
};

/// Returns the blocks of forward, or of a program that contains a copy of it.
std::vector<Block> find_blocks(const ir::Function& function);

/// Returns the body indices of the block's `attention` ops.
std::vector<std::size_t> attention_ops(const ir::Function& function, const Block& block);

/// The tokens of a stream before the image's tokens: class token and registers.
struct Prefix {
  bool class_token = false;  // whether the first of them is a class token
  std::int64_t tokens = 0;
};

/// Finds the prefix of `stream` [batch, tokens, width]. It traces each of the first tokens back, through
/// streams and token-wise ops, to a parameter of the role cls_token or reg_token.
Prefix find_prefix(const ir::Module& module, const ir::Function& function, ir::Value stream);

/// Returns (sum of the widths of the encoder's blocks) / (their number)^2 (Oh et al., 2025). This is width /
/// depth if all widths are equal, and 0 for a network without blocks.
double width_over_depth(const ir::Function& function);

}  // namespace rewire::programs
