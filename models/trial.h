// Small networks that a residual strategy is tried on: `rewire plugin test`. Odd widths and extents on
// purpose; each has random streams or axes that the others lack.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::models {

struct TrialNetwork {
  std::string name;
  std::string what;   // in a few words, for people
  ir::Module module;  // as models::build's: forward(image) -> (logits)
};

/// vit_token: a plain pre-norm ViT, which every strategy must take. vit_avg: dropout and drop path, no class
/// token, another width. maps: joins of feature maps N C H W (site conv), whose channel axis is not the last.
std::vector<TrialNetwork> trial_networks();

/// Two blocks whose branches read their own and earlier tokens only (site attn: the mean over them; site mlp:
/// the token itself), of images [2, 1, 6, 5], a token a row. Classified by the last token.
TrialNetwork causal_network();

}  // namespace rewire::models
