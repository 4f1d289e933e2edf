// What of a network can be traced, and how it is called: a weight by its own name; what a place computes, the last value
// there, by the place, "blocks.3.attn.qkv"; any other value by place, op and its number among the values of that op at
// that place, "blocks.3.attn:mul.2". The last of a place has that name too, as has what stands at no place (":add").
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::runtime {

struct TracedTensor {
  std::string name;  // the short one, where there is one
  std::string full;  // "blocks.3.attn:mul.2"; of a weight its name
  std::string op;    // "mul"; "param" of a weight
  ir::Value value;
};

/// Floats alone, no constants; in the order in which `forward` computes them.
std::vector<TracedTensor> traceable_tensors(const ir::Function& forward);

/// Those that one of the patterns of * and ? matches: without ':' by their short names, with it by the full ones. No
/// pattern: what places compute. UserError with the nearest name where a pattern matches nothing.
std::vector<TracedTensor> select_tensors(const std::vector<TracedTensor>& all,
                                         const std::vector<std::string>& patterns);

/// All that is computed behind the tensor `after` ("" : from the start on) up to `last`, that one included, but no weights.
std::vector<TracedTensor> tensors_between(const std::vector<TracedTensor>& all, const std::string& after,
                                          const std::string& last);

}  // namespace rewire::runtime
