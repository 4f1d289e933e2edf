#include "runtime/export/onnx_translation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ir/error.h"
#include "ir/opcodes.h"

namespace rewire::runtime {
namespace {

/// An input or output that is no name yet: the mark, and a value's or an output's number.
constexpr char kValueMark = '\1', kOutputMark = '\2';

}  // namespace

OnnxTranslation::OnnxTranslation(const ExportFunction& forward) : ExportReader(forward) {
  for (const ir::Argument& argument : forward.function->arguments) taken_.insert(argument.name);
  for (const ir::Argument& result : forward.function->results) {
    if (!taken_.insert(result.name).second) {
      user_error("export: two of '{}''s inputs and results share the name '{}'", forward.module->name,
                 result.name);
    }
  }
  for (const ir::Parameter& parameter : forward.module->parameters) {
    if (!taken_.insert(parameter.name).second) {
      user_error("export: the weight '{0}' and an input or a result '{0}' cannot share a name in ONNX",
                 parameter.name);
    }
  }
}

std::string OnnxTranslation::unique(const std::string& wish) {
  std::string name = wish;
  int& number = numbers_[wish];
  while (!taken_.insert(name).second) name = fmt::format("{}_{}", wish, ++number + 1);
  return name;
}

std::string OnnxTranslation::value(ir::Value value) {
  need(value);
  return kValueMark + std::to_string(value.id);
}

std::vector<std::string> OnnxTranslation::pointwise(const ir::Op& op) {
  std::vector<std::string> inputs;
  for (const Operand& operand : pointwise_operands(op)) {
    const ir::DType dtype = type(op.operands[inputs.size()]).dtype;
    inputs.push_back(operand.number ? filled(*operand.number, dtype) : value(operand.value));
  }
  return inputs;
}

std::string OnnxTranslation::new_output() {
  return kOutputMark + std::to_string(outputs_++);
}

std::string OnnxTranslation::node(const ir::Op& op, const std::string& type, std::vector<std::string> inputs,
                                  ir::Attributes attributes) {
  const std::string name = op.location.empty() ? type : op.location + "/" + type;
  group_.push_back({type, name, std::move(inputs), {new_output()}, std::move(attributes)});
  return group_.back().outputs[0];
}

void OnnxTranslation::last(const ir::Op& op, const std::string& type, std::vector<std::string> inputs,
                           ir::Attributes attributes) {
  node(op, type, std::move(inputs), std::move(attributes));
  group_.back().outputs = {kValueMark + std::to_string(op.results[0].id)};
}

std::vector<std::string> OnnxTranslation::pair(const ir::Op& op, const std::string& type,
                                               std::vector<std::string> inputs, ir::Attributes attributes) {
  node(op, type, std::move(inputs), std::move(attributes));
  group_.back().outputs.push_back(new_output());
  return group_.back().outputs;
}

void OnnxTranslation::result(const ir::Op& op, std::size_t index, const std::string& type,
                             const std::string& input, ir::Attributes attributes) {
  if (!is_needed(op.results[index])) return;
  node(op, type, {input}, std::move(attributes));
  group_.back().outputs = {kValueMark + std::to_string(op.results[index].id)};
}

std::string OnnxTranslation::constant(const HostTensor& tensor) {
  for (const auto& [name, known] : out_.constants) {
    if (known.type() == tensor.type() && std::ranges::equal(known.bytes(), tensor.bytes())) return name;
  }
  const std::string name = unique(fmt::format("constant_{}", out_.constants.size()));
  out_.constants.emplace(name, tensor.clone());
  return name;
}

std::string OnnxTranslation::ints(const ir::Ints& values) {
  HostTensor tensor({ir::DType::i64, {static_cast<std::int64_t>(values.size())}});
  std::ranges::copy(values, tensor.as<std::int64_t>().begin());
  return constant(tensor);
}

std::string OnnxTranslation::filled(double number, ir::DType dtype, ir::Shape shape) {
  ir::Tensor tensor({dtype, std::move(shape)});
  std::ranges::fill(tensor.data, number);
  return constant(to_host(tensor));
}

std::string OnnxTranslation::batch() {
  if (!batch_.empty()) return batch_.back().name;
  for (const ir::Argument& argument : forward_.function->arguments) {
    const ExportShape shape = extents(argument.value);
    for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis) {
      const ExportExtent& extent = shape[static_cast<std::size_t>(axis)];
      if (extent.coefficient == 0 || extent.constant != 0) continue;
      const std::string name = unique(extent.coefficient == 1 ? "batch" : "batches");
      batch_.push_back({"Shape", name, {argument.name}, {name}, {{"start", axis}, {"end", axis + 1}}});
      if (extent.coefficient != 1) {
        const std::string one = unique("batch");
        batch_.push_back({"Div", one, {name, ints({extent.coefficient})}, {one}, {}});
      }
      return batch_.back().name;
    }
  }
  user_error("export: '{}' needs the batch, and no input has it", forward_.module->name);
}

std::string OnnxTranslation::shape(const ir::Op& op, const ExportShape& shape, bool may_infer) {
  const auto open =
      std::ranges::count_if(shape, [](const ExportExtent& extent) { return extent.coefficient != 0; });
  ir::Ints fixed;
  std::vector<std::string> parts;
  const auto end_fixed = [&] {
    if (!fixed.empty()) parts.push_back(ints(fixed));
    fixed.clear();
  };
  for (const ExportExtent& extent : shape) {
    if (extent.coefficient == 0 || (may_infer && open == 1)) {
      fixed.push_back(extent.coefficient == 0 ? extent.constant : -1);
      continue;
    }
    end_fixed();
    std::string size = batch();
    if (extent.coefficient != 1) size = node(op, "Mul", {size, ints({extent.coefficient})});
    if (extent.constant != 0) size = node(op, "Add", {size, ints({extent.constant})});
    parts.push_back(size);
  }
  if (parts.empty()) return ints(fixed);
  end_fixed();
  return parts.size() == 1 ? parts[0] : node(op, "Concat", parts, {{"axis", std::int64_t{0}}});
}

std::string OnnxTranslation::swapped(const ir::Op& op, ir::Value value) {
  ir::Ints order;
  for (std::int64_t axis = 0; axis < type(value).rank(); ++axis) order.push_back(axis);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return node(op, "Transpose", {this->value(value)}, {{"perm", order}});
}

bool is_onnx_update(const ExportFunction& forward, const ir::Argument& result) {
  return result.name.starts_with("update.") &&
         forward.module->find_parameter(result.name.substr(7)) != nullptr;
}

OnnxGraph OnnxTranslation::take() {
  const ir::Function& function = *forward_.function;
  std::vector<const ir::Argument*> results;
  for (const ir::Argument& result : function.results) {
    if (is_onnx_update(forward_, result)) continue;
    need(result.value);
    results.push_back(&result);
  }
  for (auto op = function.body.rbegin(); op != function.body.rend(); ++op) {
    if (op->code == ir::Opcode::update || !is_needed(*op)) continue;
    if (op->code == ir::Opcode::param) {
      out_.weights.insert(parameter(op->results[0]));
      continue;
    }
    if (op->code == ir::Opcode::slice || has_fixed_attributes(*op)) translate(*this, *op);
    groups_.push_back(std::exchange(group_, {}));
  }
  check_refused("ONNX");
  name_nodes(results);
  return std::move(out_);
}

/// Puts the nodes in order, with names in that order.
void OnnxTranslation::name_nodes(const std::vector<const ir::Argument*>& results) {
  std::map<std::string, std::string> names;  // by marks
  const auto mark_of = [&](ir::Value value) { return kValueMark + std::to_string(resolved(value).id); };
  for (const ir::Argument& argument : forward_.function->arguments) {
    names[mark_of(argument.value)] = argument.name;
  }
  for (const ir::Op& op : forward_.function->body) {
    if (op.code == ir::Opcode::param) names[mark_of(op.results[0])] = parameter(op.results[0]);
  }
  std::vector<OnnxNode> copies;
  for (const ir::Argument* result : results) {
    const auto [known, is_new] = names.emplace(mark_of(result->value), result->name);
    if (!is_new) copies.push_back({"Identity", unique("Identity"), {known->second}, {result->name}, {}});
  }
  out_.nodes = std::move(batch_);
  for (auto group = groups_.rbegin(); group != groups_.rend(); ++group) {
    for (OnnxNode& node : *group) {
      node.name = unique(node.name);
      for (std::string& input : node.inputs) {
        if (!input.empty() && input[0] == kValueMark) input = mark_of({std::stoi(input.substr(1))});
        if (const auto known = names.find(input); known != names.end()) {
          input = known->second;
        } else if (!input.empty() && (input[0] == kValueMark || input[0] == kOutputMark)) {
          internal_error("{} reads what no node computes", node.name);
        }
      }
      for (std::size_t index = 0; index < node.outputs.size(); ++index) {
        const std::string name = index == 0 ? node.name : unique(fmt::format("{}.{}", node.name, index));
        node.outputs[index] = names.emplace(node.outputs[index], name).first->second;
      }
      out_.nodes.push_back(std::move(node));
    }
  }
  std::ranges::move(copies, std::back_inserter(out_.nodes));
}

}  // namespace rewire::runtime
