// Small modules with residual joins, so that tests of rewrites need no model of the zoo.
#pragma once

#include <cstdint>

#include "ir/module.h"

namespace rewire::test {

struct ResidualNet {
  std::int64_t batch = 2, tokens = 3, dim = 4;
  std::int64_t depth = 2;          // encoder blocks, each an attn and an mlp join
  std::int64_t decoder_depth = 0;  // decoder blocks after them, each an mlp join
};

/// Returns forward(image: f32[batch, tokens, dim]) -> (logits of the same type). Each branch is LN(x) W^T +
/// b with weights blocks.B.norm1.weight (role norm), blocks.B.attn.proj.weight (proj),
/// blocks.B.mlp.fc2.weight (fc2), … The decoder's are decoder_blocks.B.*
ir::Module residual_net(const ResidualNet& net);

struct JoinAxes {
  std::int64_t batch = 0, token = 1, channel = 2;
};

/// Returns forward(x, f) -> (y): one mlp join of block 0 with stream x, branch f and branch input x.
ir::Module single_join(const ir::TensorType& type, JoinAxes axes = {});

}  // namespace rewire::test
