#include "runtime/events/graph.h"

#include <event.pb.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ir/opcodes.h"
#include "ir/schema.h"

namespace rewire::runtime {
namespace {

/// TensorFlow's DataType.
int tensorflow_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::f32:
      return 1;
    case ir::DType::f64:
      return 2;
    case ir::DType::i32:
      return 3;
    case ir::DType::u8:
      return 4;
    case ir::DType::i64:
      return 9;
    case ir::DType::i1:
      return 10;
    case ir::DType::bf16:
      return 14;
    case ir::DType::f16:
      return 19;
  }
  return 0;
}

class GraphWriter {
 public:
  explicit GraphWriter(const ir::Function& function) : function_(function), names_(function.types.size()) {}

  std::string write() {
    graph_.mutable_versions()->set_producer(kProducer);
    for (const ir::Argument& argument : function_.arguments) {
      add_node(argument.name, "Placeholder", {argument.value});
      name_results({argument.value});
    }
    for (const ir::Op& op : function_.body) write_op(op);
    for (const ir::Argument& result : function_.results) {
      events::Node& node = add_node(result.name, "result", {result.value});
      node.add_input(names_.at(static_cast<std::size_t>(result.value.id)));
    }
    return graph_.SerializeAsString();
  }

 private:
  static constexpr int kProducer = 22;  // of the first GraphDef whose rules have not changed since

  void write_op(const ir::Op& op) {
    const std::string_view opcode = ir::opcode_name(op.code);
    const bool is_parameter = op.code == ir::Opcode::param;
    const std::string place = is_parameter          ? op.attributes.get_string("name")
                              : op.location.empty() ? std::string(opcode)
                                                    : fmt::format("{}.{}", op.location, opcode);
    events::Node& node = add_node(place, opcode, op.results);
    for (const ir::Value operand : op.operands)
      node.add_input(names_.at(static_cast<std::size_t>(operand.id)));
    for (const auto& [name, value] : op.attributes) (*node.mutable_attr())[name].set_s(ir::value_text(value));
    name_results(op.results);
  }

  /// `values`: the node's results, or the value that it passes on.
  events::Node& add_node(std::string place, std::string_view opcode, const std::vector<ir::Value>& values) {
    std::ranges::replace(place, '.', '/');
    std::string name = place;
    for (int& uses = uses_[place]; !taken_.insert(name).second;) name = fmt::format("{}_{}", place, ++uses);
    events::Node& node = *graph_.add_node();
    node.set_name(name);
    node.set_op(std::string(opcode));
    if (values.empty()) return node;
    (*node.mutable_attr())["T"].set_type(tensorflow_type(function_.type(values.front()).dtype));
    events::Attribute::List& shapes = *(*node.mutable_attr())["_output_shapes"].mutable_list();
    for (const ir::Value value : values) {
      events::Shape& shape = *shapes.add_shape();
      for (const std::int64_t extent : function_.type(value).shape) shape.add_dim()->set_size(extent);
    }
    return node;
  }

  /// Names the results of the last node.
  void name_results(const std::vector<ir::Value>& results) {
    const std::string& name = graph_.node(graph_.node_size() - 1).name();
    for (std::size_t i = 0; i < results.size(); ++i)
      names_.at(static_cast<std::size_t>(results[i].id)) = i == 0 ? name : fmt::format("{}:{}", name, i);
  }

  const ir::Function& function_;
  events::Graph graph_;
  std::vector<std::string> names_;  // of values, by id
  std::set<std::string> taken_;
  std::map<std::string, int> uses_;  // of a place
};

}  // namespace

std::string event_graph(const ir::Function& function) {
  return GraphWriter(function).write();
}

}  // namespace rewire::runtime
