// Small networks on which `rewire plugin test` tries a strategy. Their widths and extents are odd on
// purpose. Each has random streams or axes that the others lack.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::models {

struct TrialNetwork {
  std::string name;
  std::string what;   // a few words for people
  ir::Module module;  // forward(image) -> (logits), as of models::build
};

/// Returns the trial networks. vit_token: a plain pre-norm ViT, which every strategy must accept. vit_avg:
/// dropout and drop path, no class token, another width. maps: joins of feature maps N C H W (site conv),
/// whose channel axis is not the last.
std::vector<TrialNetwork> trial_networks();

/// Returns a network of two causal blocks on images [2, 1, 6, 5], one token per row. A branch reads only its
/// own token and earlier ones (site attn: their mean; site mlp: the token itself). The last token
/// classifies.
TrialNetwork causal_network();

}  // namespace rewire::models
