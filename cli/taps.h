// rewire run --tap: adds the outputs of joins as results of the forward program.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::cli {

/// A join, "blocks.3.attn", and the file for its output.
struct Tap {
  std::string join, file;
};

/// Returns the taps of the flags, in network order. A flag is a join's name, a pattern of * and ?, or
/// NAME=FILE. Without a file, the name is inserted before the ending of `output`: "y.blocks.3.attn.npy".
/// Throws UserError with the nearest name if no join matches, and if two values would go to one file.
std::vector<Tap> find_taps(const ir::Function& forward, const std::vector<std::string>& flags,
                           const std::string& output);

/// Makes the joins results of `forward`, under their names.
void add_taps(ir::Function& forward, const std::vector<Tap>& taps);

}  // namespace rewire::cli
