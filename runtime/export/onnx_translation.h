// Translates one op after the other into nodes of ONNX, from the last one back.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/attribute.h"
#include "runtime/export/export_function.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Inputs and outputs are names, or marks of values, whose names are known in the end.
struct OnnxNode {
  std::string type, name;
  std::vector<std::string> inputs, outputs;
  ir::Attributes attributes;
};

struct OnnxGraph {
  std::vector<OnnxNode> nodes;  // in order
  std::map<std::string, HostTensor> constants;
  std::set<std::string> weights;  // the parameters that the nodes read
};

class OnnxTranslation : public ExportReader {
 public:
  explicit OnnxTranslation(const ExportFunction& forward);
  OnnxGraph take();

  // What the translations of single ops ask and say.
  /// Returns a value as a node's input.
  std::string value(ir::Value value);
  /// Returns the operands of a pointwise op as inputs; a number becomes a scalar.
  std::vector<std::string> pointwise(const ir::Op& op);
  /// Adds a node to those of `op` and returns its output.
  std::string node(const ir::Op& op, const std::string& type, std::vector<std::string> inputs,
                   ir::Attributes attributes = {});
  /// Adds the node that computes the op's first result.
  void last(const ir::Op& op, const std::string& type, std::vector<std::string> inputs,
            ir::Attributes attributes = {});
  /// Adds a node with two outputs.
  std::vector<std::string> pair(const ir::Op& op, const std::string& type, std::vector<std::string> inputs,
                                ir::Attributes attributes);
  /// Adds the node that computes a result from one input.
  void result(const ir::Op& op, std::size_t index, const std::string& type, const std::string& input,
              ir::Attributes attributes = {});
  std::string constant(const HostTensor& tensor);
  std::string ints(const ir::Ints& values);
  std::string filled(double number, ir::DType dtype, ir::Shape shape = {});
  /// Returns extents as a vector i64; `may_infer`: as Reshape takes them, the only one of the batch is -1.
  std::string shape(const ir::Op& op, const ExportShape& shape, bool may_infer = false);
  /// Returns the value with its last two axes swapped.
  std::string swapped(const ir::Op& op, ir::Value value);

 private:
  std::string unique(const std::string& wish);
  std::string batch();
  std::string new_output();
  void name_nodes(const std::vector<const ir::Argument*>& results);

  std::set<std::string> taken_;
  std::vector<std::vector<OnnxNode>> groups_;  // of each op, the last op's first
  std::vector<OnnxNode> group_;
  std::int64_t outputs_ = 0;
  std::vector<OnnxNode> batch_;         // read the batch as a vector, once that is needed
  std::map<std::string, int> numbers_;  // the last in names that begin alike
  OnnxGraph out_;
};

/// Returns whether a result is what forward writes to a parameter.
bool is_onnx_update(const ExportFunction& forward, const ir::Argument& result);
/// Returns the number of an element type in a model.
std::int64_t onnx_element_type(ir::DType dtype);
/// Translates an op, one of whose results is needed.
void translate(OnnxTranslation& net, const ir::Op& op);
/// Returns false for composites that have no counterpart and must be taken apart first.
bool is_onnx(ir::Opcode code);

}  // namespace rewire::runtime
