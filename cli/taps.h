// rewire run --tap: what stands behind a join, as one more result of the forward program.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::cli {

/// A join, "blocks.3.attn", and the file that its output goes to.
struct Tap {
  std::string join, file;
};

/// What the flags ask for, in the network's order: each is a join's name or a pattern of * and ?, or
/// NAME=FILE. Without a file it is `output` with the name before its ending, "y.blocks.3.attn.npy". UserError
/// on what no join matches, with the nearest, and where two values would go to one file.
std::vector<Tap> find_taps(const ir::Function& forward, const std::vector<std::string>& flags,
                           const std::string& output);

/// Makes the joins results of `forward`, under their names.
void add_taps(ir::Function& forward, const std::vector<Tap>& taps);

}  // namespace rewire::cli
