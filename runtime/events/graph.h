// A function for TensorBoard's tab "graphs". Each op is a node named by its place, "blocks.3.attn.qkv" as
// "blocks/3/attn/qkv", so that blocks and layers fold.
#pragma once

#include <string>

#include "ir/module.h"

namespace rewire::runtime {

/// Returns a serialized Graph (event.proto): the function's arguments, ops with types and attributes, and
/// results.
std::string event_graph(const ir::Function& function);

}  // namespace rewire::runtime
