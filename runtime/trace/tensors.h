// The tensors of a network that can be traced, and their names. A weight has its own name. The last value
// that a place computes has the place's name, "blocks.3.attn.qkv". Every value has a full name: place, op
// and its number among the values of that op at that place, "blocks.3.attn:mul.2", or ":add" without a
// place.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::runtime {

struct TracedTensor {
  std::string name;  // the short one, if there is one
  std::string full;  // "blocks.3.attn:mul.2"; of a weight its name
  std::string op;    // "mul"; "param" for a weight
  ir::Value value;
};

/// Returns floats only, no constants, in the order in which `forward` computes them.
std::vector<TracedTensor> traceable_tensors(const ir::Function& forward);

/// Returns the tensors that match a pattern of * and ?: without ':' by short name, with it by full name.
/// Without patterns: the last value of each place. Throws UserError with the nearest name if a pattern
/// matches none.
std::vector<TracedTensor> select_tensors(const std::vector<TracedTensor>& all,
                                         const std::vector<std::string>& patterns);

/// Returns the tensors computed after `after` ("": from the start) up to and including `last`, without
/// weights.
std::vector<TracedTensor> tensors_between(const std::vector<TracedTensor>& all, const std::string& after,
                                          const std::string& last);

}  // namespace rewire::runtime
