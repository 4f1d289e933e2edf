// A network as an ONNX model for inference. docs/design/onnx.md says how it comes about.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/module.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

struct OnnxRequest {
  const ir::Module* network = nullptr;  // `forward` after the plugins
  const ir::Module* larger = nullptr;   // the same at another batch; nullptr: its batch is fixed
  std::int64_t batch = 1, larger_batch = 1;
  const TensorMap* weights = nullptr;
  std::map<std::string, std::string> metadata = {};
  bool is_external = false;  // weights lie in onnx_data_file(); so do weights of 2 GiB and more
};

/// Returns the file for weights beside a model.
std::string onnx_data_file(const std::string& output);
/// Writes the model. Throws UserError for a network that ONNX has no form for; then it writes nothing.
void write_onnx(const std::string& output, const OnnxRequest& request);

}  // namespace rewire::runtime
