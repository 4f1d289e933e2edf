// The zoo: functions that build IR. A model is options; build() turns them into a module with one function,
//   forward(image: f32[batch, channels, image, image]) -> (logits: f32[batch, classes])
// whose residual joins are explicit and whose parameters carry timm's names, layouts and initialisation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace rewire::models {

struct ModelOptions {
  std::string name = "vit";  // the zoo name or "vit"
  std::int64_t dim = 192;
  std::int64_t depth = 12;
  std::int64_t heads = 3;
  double mlp_ratio = 4.0;
  std::int64_t patch = 4;
  std::int64_t image = 28;
  std::int64_t channels = 1;
  std::int64_t classes = 10;
  std::string pool = "token";      // token: the cls token; avg: mean over patch tokens, no cls token (timm's
                                   // global_pool='avg', class_token=False, fc_norm off)
  std::string act_layer = "gelu";  // of the MLP, as timm names it: gelu (erf) or gelu_tanh
  double drop_path = 0.0;          // rate of the last block, linear from 0 at the first
  double dropout = 0.0;  // after the position embedding, after attn.proj, and after fc1's activation and fc2
                         // (timm's proj_drop places)
};

/// The zoo's names, in the order `rewire models` prints.
std::vector<std::string> zoo_names();
/// UserError with the nearest match for an unknown name.
ModelOptions zoo(std::string_view name);
/// UserError if an option is out of range or does not fit another (dim % heads, image % patch).
ir::Module build(const ModelOptions& options, std::int64_t batch);

}  // namespace rewire::models
