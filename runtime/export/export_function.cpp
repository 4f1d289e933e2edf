#include "runtime/export/export_function.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/attention.h"
#include "ir/ops/op_info.h"
#include "ir/passes/rewrite.h"

namespace rewire::runtime {

void take_apart(ir::Module& module, const std::function<bool(const ir::Op&)>& has_form) {
  for (ir::Function& function : module.functions) {
    ir::BodyRewriter rewriter(module, function);
    while (rewriter.run([&](const ir::Op& op) -> std::optional<std::vector<ir::Value>> {
      if (has_form(op)) return std::nullopt;
      if (op.code == ir::Opcode::attention) return ir::spell_out_attention(rewriter.builder(), op);
      ir::Op part = op;
      // A whole matrix, which runtimes compute once, as its lags are constants.
      if (op.code == ir::Opcode::circulant_matmul) part.attributes.set("lowering", std::string("dense"));
      return ir::op_info(op.code).decompose(rewriter.builder(), part);
    })) {
    }
  }
}

bool has_torch_form(const ir::Op& op) {
  if (op.code == ir::Opcode::rope) return false;
  if (op.code != ir::Opcode::attention) return true;
  const ir::AttentionForm form = ir::attention_form(op);
  return form.window == 0 && form.documents < 0 && !(form.causal && form.bias >= 0);
}

ExportReader::ExportReader(const ExportFunction& forward)
    : forward_(forward), definitions_(forward.function->definitions()) {
  uses_.assign(forward_.function->types.size(), 0);
  for (const ir::Op& op : forward_.function->body) {
    for (const ir::Value value : op.operands) ++uses_[static_cast<std::size_t>(value.id)];
  }
  for (const ir::Argument& result : forward_.function->results) {
    ++uses_[static_cast<std::size_t>(result.value.id)];
  }
  if (forward_.larger != nullptr && forward_.larger->body.size() != forward_.function->body.size()) {
    user_error("export: '{}' has other ops at another batch", forward_.module->name);
  }
}

ExportShape ExportReader::extents(ir::Value value) const {
  const ir::Shape& at_small = type(value).shape;
  ExportShape shape;
  for (std::size_t axis = 0; axis < at_small.size(); ++axis) {
    ExportExtent extent{0, at_small[axis]};
    if (forward_.larger != nullptr) {
      const std::int64_t more = forward_.larger->type(value).shape[axis] - at_small[axis];
      const std::int64_t steps = forward_.larger_batch - forward_.batch;
      if (more % steps != 0)
        internal_error("an extent of {} is no multiple of the batch", to_string(type(value)));
      extent = {more / steps, at_small[axis] - more / steps * forward_.batch};
    }
    shape.push_back(extent);
  }
  return shape;
}

const ir::Op* ExportReader::definition(ir::Value value) const {
  const std::int32_t at = definitions_[static_cast<std::size_t>(value.id)];
  return at < 0 ? nullptr : &forward_.function->body[static_cast<std::size_t>(at)];
}

const ir::Op* ExportReader::definition(ir::Value value, ir::Opcode code) const {
  const ir::Op* op = definition(value);
  return op != nullptr && op->code == code ? op : nullptr;
}

const ir::Op& ExportReader::larger(const ir::Op& op) const {
  const auto at = static_cast<std::size_t>(&op - forward_.function->body.data());
  return forward_.larger == nullptr ? op : forward_.larger->body[at];
}

std::string ExportReader::parameter(ir::Value value) const {
  const ir::Op* op = definition(value, ir::Opcode::param);
  return op == nullptr ? "" : op->attributes.get_string("name");
}

std::optional<double> ExportReader::number(ir::Value value) const {
  const ir::Op* op = definition(peeled(value), ir::Opcode::constant);
  if (op == nullptr || !op->attributes.get<ir::Doubles>("values").empty() ||
      larger(*op).attributes != op->attributes) {
    return std::nullopt;
  }
  return op->attributes.get_double("value");
}

ir::Value ExportReader::peeled(ir::Value value) const {
  for (;;) {
    const ir::Op* op = definition(value);
    if (op == nullptr) return value;
    if (op->code == ir::Opcode::reshape) {
      const ir::Shape &in = type(op->operands[0]).shape, &out = type(value).shape;
      if (in.size() > out.size()) return value;
      const std::size_t added = out.size() - in.size();
      const ExportShape symbols = extents(value), before = extents(op->operands[0]);
      for (std::size_t axis = 0; axis < added; ++axis) {
        if (symbols[axis] != ExportExtent{0, 1}) return value;
      }
      if (!std::ranges::equal(before, std::span(symbols).subspan(added))) return value;
    } else if (op->code != ir::Opcode::broadcast) {
      return value;
    }
    value = op->operands[0];
  }
}

std::vector<ExportReader::Operand> ExportReader::pointwise_operands(const ir::Op& op) const {
  const ExportShape wanted = extents(op.results[0]);
  std::vector<Operand> operands;
  std::vector<bool> covered(wanted.size(), false);  // by a tensor, which may be broadcast to the others
  for (const ir::Value value : op.operands) {
    operands.push_back({peeled(value), number(value)});
    if (operands.back().number) continue;
    const ExportShape shape = extents(operands.back().value);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const std::size_t to = wanted.size() - shape.size() + axis;
      if (shape[axis] == wanted[to]) covered[to] = true;
    }
  }
  const auto tensor =
      std::ranges::find_if(operands, [](const Operand& operand) { return !operand.number.has_value(); });
  const bool has_shape = std::ranges::all_of(covered, [](bool is) { return is; });
  if (tensor == operands.end()) {
    operands[0] = {op.operands[0], std::nullopt};
  } else if (!has_shape) {
    *tensor = {op.operands[static_cast<std::size_t>(tensor - operands.begin())], std::nullopt};
  }
  return operands;
}

void ExportReader::add_alias(ir::Value from, ir::Value to) {
  aliases_[from.id] = to;
  need(to);
}

ir::Value ExportReader::resolved(ir::Value value) const {
  for (auto at = aliases_.find(value.id); at != aliases_.end(); at = aliases_.find(value.id))
    value = at->second;
  return value;
}

void ExportReader::refuse(const ir::Op& op, const std::string& why) {
  const std::string text = fmt::format("{}{} ({})", ir::opcode_name(op.code),
                                       op.location.empty() ? "" : " at " + op.location, why);
  if (std::ranges::find(refused_, text) == refused_.end()) refused_.push_back(text);
}

void ExportReader::check_refused(const std::string& format) const {
  if (refused_.empty()) return;
  user_error("export: this network has no form in {}: {}", format, fmt::join(refused_, "; "));
}

void ExportReader::need(ir::Value value) {
  needed_.insert(resolved(value).id);
}

bool ExportReader::has_fixed_attributes(const ir::Op& op) {
  const ir::Op& other = larger(op);
  if (op.code == other.code && op.attributes == other.attributes) return true;
  refuse(op, "it depends on the batch otherwise than by its shapes");
  return false;
}

bool ExportReader::is_needed(const ir::Op& op) const {
  return std::ranges::any_of(op.results, [&](ir::Value value) { return is_needed(value); });
}

}  // namespace rewire::runtime
