// A network as the source of a PyTorch module: readable, complete in one file, with the weights' names.
// docs/design/torch.md says how it comes about.
#pragma once

#include <string>
#include <vector>

#include "runtime/export/torch_steps.h"

namespace rewire::runtime {

struct TorchStrategy {
  std::string name;                // the plugin's
  std::vector<std::string> lines;  // what its method says about itself
};

struct TorchRequest {
  ExportFunction forward;
  std::vector<TorchStrategy> strategies;
  std::vector<std::string> about;  // the lines of the file's docstring
};

/// Returns the text of a Python file with a class `Net`, whose state dict has exactly the weights of the module.
/// Throws UserError for a network that PyTorch has no form for.
std::string torch_source(const TorchRequest& request);

}  // namespace rewire::runtime
