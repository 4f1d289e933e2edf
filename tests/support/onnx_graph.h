// What any runtime asks of an ONNX graph, checked.
#pragma once

#include <onnx_model.pb.h>

#include <map>
#include <set>
#include <string>

#include "tests/support/catch.h"

namespace rewire::testing {

/// Checks names and the order of nodes. Returns the bytes of the initializers that lie in the model.
inline std::map<std::string, std::string> check_onnx_graph(const onnx::Model& model) {
  std::map<std::string, std::string> tensors;
  std::set<std::string> known{""};  // an input that is left out
  for (const onnx::ValueInfo& input : model.graph().input()) CHECK(known.insert(input.name()).second);
  for (const onnx::Tensor& tensor : model.graph().initializer()) {
    CAPTURE(tensor.name());
    CHECK(known.insert(tensor.name()).second);
    tensors[tensor.name()] = tensor.raw_data();
  }
  std::set<std::string> names;
  for (const onnx::Node& node : model.graph().node()) {
    CAPTURE(node.name());
    CHECK(names.insert(node.name()).second);
    for (const std::string& input : node.input()) CHECK(known.contains(input));
    for (const std::string& output : node.output()) CHECK(known.insert(output).second);
  }
  for (const onnx::ValueInfo& output : model.graph().output()) CHECK(known.contains(output.name()));
  return tensors;
}

}  // namespace rewire::testing
