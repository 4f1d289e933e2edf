// The blocks of a network, read off its joins: what stands at their entrances and exits, their attention, and
// which of a stream's tokens are of the image.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/residual.h"

namespace rewire::programs {

/// The joins of one block in the order of the network. Its entrance is the stream of the first of them, its
/// exit the value of the last.
struct Block {
  std::string name;  // "blocks.3"; "decoder_blocks.3" in the decoder
  std::vector<ir::Join> joins;
  std::vector<std::size_t> join_ops;  // body indices of their `residual` ops
  ir::Value entrance, exit;
  std::size_t first_op = 0, last_op = 0;  // body indices between which its ops stand, both included
};

/// Of forward, or of a program that it was inlined into.
std::vector<Block> find_blocks(const ir::Function& function);

/// Body indices of the `attention` ops of a block.
std::vector<std::size_t> attention_ops(const ir::Function& function, const Block& block);

/// The tokens of a stream that stand before those of the image: the class token, registers.
struct Prefix {
  bool class_token = false;  // the first of them is one
  std::int64_t tokens = 0;
};

/// Of `stream` [batch, tokens, width]: each of its first tokens is followed back, along streams and through what works
/// token by token, to where it comes from: a parameter of the role cls_token or reg_token.
Prefix find_prefix(const ir::Module& module, const ir::Function& function, ir::Value stream);

/// Oh et al. (2025): (sum over the encoder's blocks of their width) / (their number)^2, which is width / depth
/// where all have one width. 0 of a network without blocks.
double width_over_depth(const ir::Function& function);

}  // namespace rewire::programs
