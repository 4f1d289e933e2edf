#include "runtime/export/torch_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/residual.h"
#include "runtime/export/torch_translation.h"

namespace rewire::runtime {
namespace {

std::string mark(char letter, const std::string& body) {
  return kMark + (letter + body) + kEnd;
}

bool is_state_of_chance(const std::string& name) {
  return name == "rng.seed" || name == "train.step";
}

}  // namespace

std::string operand_mark(std::size_t index, int binding) {
  return mark('v', fmt::format("{}:{}", index, binding));
}
std::string literal_mark(std::size_t index) {
  return mark('h', std::to_string(index));
}
std::string name_mark(std::size_t index) {
  return mark('n', std::to_string(index));
}

std::string python_float(double value) {
  if (std::isnan(value)) return "float(\"nan\")";
  if (std::isinf(value)) return value > 0 ? "float(\"inf\")" : "float(\"-inf\")";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string python_number(double value) {
  const bool whole = std::floor(value) == value && std::abs(value) < 1e9;
  return whole ? std::to_string(static_cast<std::int64_t>(value)) : python_float(value);
}

std::string python_tuple(const std::vector<std::string>& items) {
  return fmt::format("({}{})", fmt::join(items, ", "), items.size() == 1 ? "," : "");
}

TorchWriter::TorchWriter(const ir::Op& op) {
  step.results = op.results;
}

std::string TorchWriter::operand(ir::Value value, int binding) {
  step.operands.push_back(value);
  return operand_mark(step.operands.size() - 1, binding);
}

std::string TorchWriter::literal(std::string text, std::string hint) {
  step.code.literals.push_back({std::move(text), std::move(hint)});
  return literal_mark(step.code.literals.size() - 1);
}

std::string TorchWriter::name(std::string path) {
  step.code.names.push_back(std::move(path));
  return name_mark(step.code.names.size() - 1);
}

TorchTranslation::TorchTranslation(const ExportFunction& forward, const std::vector<std::string>& plugins)
    : ExportReader(forward), plugins_(plugins) {
  for (const std::size_t at : ir::find_joins(*forward_.function)) {
    const ir::Op& op = forward_.function->body[at];
    joins_[op.location] = joins_[ir::read_join(op).describe()] = block_of(op);
  }
}

std::string TorchTranslation::block_of(const ir::Op& join) {
  const std::size_t dot = join.location.rfind('.');
  return dot == std::string::npos ? "." : join.location.substr(0, dot);
}

TorchSteps TorchTranslation::take() {
  const ir::Function& function = *forward_.function;
  for (const ir::Argument& result : function.results) {
    if (!is_update(result)) need(result.value);
  }
  for (auto op = function.body.rbegin(); op != function.body.rend(); ++op) {
    if (op->code == ir::Opcode::update ? !is_state_of_chance(op->attributes.get_string("name"))
                                       : !is_needed(*op)) {
      continue;
    }
    if (op->code == ir::Opcode::slice || has_fixed_attributes(*op)) translate(*this, *op);
  }
  check_refused("PyTorch");
  std::ranges::reverse(out_.steps);
  for (TorchStep& step : out_.steps) {
    for (ir::Value& value : step.operands) value = resolved(value);
    if (step.cut) step.cut->source = resolved(step.cut->source);
    const auto suggested = step.results.size() == 1 ? suggested_.find(step.results[0].id) : suggested_.end();
    if (suggested != suggested_.end()) step.hints = {suggested->second};
  }
  for (const ir::Argument& result : function.results) {
    if (!is_update(result)) out_.results.push_back(resolved(result.value));
  }
  drop_repeated();
  join_cuts();
  return std::move(out_);
}

bool TorchTranslation::is_update(const ir::Argument& result) {
  if (!result.name.starts_with("update.")) return false;
  // The layers of PyTorch that have running statistics update them.
  const ir::Op* op = definition(result.value, ir::Opcode::batch_norm);
  if (op == nullptr)
    user_error("export: forward writes {}, which a module of PyTorch here cannot", result.name.substr(7));
  return true;
}

std::string TorchTranslation::size(TorchWriter& writer, const ExportExtent& extent, bool may_infer) const {
  if (extent.coefficient == 0) return writer.literal(extent.constant, "size");
  if (may_infer) return "-1";
  std::string text =
      extent.coefficient == 1 ? kBatchMark : fmt::format("{} * {}", extent.coefficient, kBatchMark);
  if (extent.constant != 0) text += fmt::format(" + {}", extent.constant);
  return text;
}

std::string TorchTranslation::sizes(TorchWriter& writer, const ExportShape& shape, bool may_infer) const {
  const auto open =
      std::ranges::count_if(shape, [](const ExportExtent& extent) { return extent.coefficient != 0; });
  std::vector<std::string> items;
  for (const ExportExtent& extent : shape) items.push_back(size(writer, extent, may_infer && open == 1));
  return fmt::format("{}", fmt::join(items, ", "));
}

void TorchTranslation::place(TorchStep& step, const std::string& location) const {
  step.place = location;
  for (const std::string& plugin : plugins_) {
    const std::size_t at = ("." + location + ".").find("." + plugin + ".");
    if (at == std::string::npos || at == 0) continue;
    const std::string join = location.substr(0, at - 1);
    const auto known = joins_.find(join);
    step.plugin = plugin;
    step.join = join;
    step.place = known != joins_.end() ? known->second : join.substr(0, join.rfind('.'));
    return;
  }
}

void TorchTranslation::add(const ir::Op& op, TorchWriter writer, int binding,
                           std::vector<std::string> hints) {
  TorchStep& step = writer.step;
  step.binding = binding;
  step.hints = std::move(hints);
  if (step.hints.empty()) step.hints.assign(step.results.size(), "y");
  if (step.place.empty()) place(step, op.location);
  for (const ir::Value value : step.operands) need(value);
  out_.steps.push_back(std::move(step));
}

bool TorchTranslation::add_layer(const ir::Op& op, const std::string& path,
                                 const std::vector<std::string>& weights, const TorchCode& constructor,
                                 ir::Value input, const std::string& after, const std::string& before) {
  std::size_t owned = 0;
  for (const ir::Parameter& parameter : forward_.module->parameters) {
    if (parameter.name.starts_with(path + ".")) ++owned;
  }
  if (path.empty() || owned != weights.size()) return false;
  const auto known = out_.layers.find(path);
  const auto texts = [](const TorchCode& code) {
    std::string text = code.text;
    for (const TorchLiteral& literal : code.literals) text += "," + literal.text;
    return text;
  };
  if (known != out_.layers.end() && texts(known->second.constructor) != texts(constructor)) return false;
  out_.layers[path] = {constructor, weights};
  TorchWriter writer(op);
  writer.step.results = {op.results[0]};
  const std::string layer = writer.name(path);
  const std::string x = writer.operand(input, before.empty() ? kConditional : kPrimary);
  writer.step.code.text = fmt::format("{}({}{}){}", layer, x, before, after);
  place(writer.step, op.location);
  // A layer is called by the module above it, unless a plugin calls it.
  if (writer.step.plugin.empty()) {
    const std::size_t dot = path.rfind('.');
    writer.step.place = dot == std::string::npos ? "" : path.substr(0, dot);
    if (writer.step.place.empty()) writer.step.place = ".";
  }
  add(op, std::move(writer), kPrimary, {path.substr(path.rfind('.') + 1)});
  return true;
}

/// Steps of one place that compute the same are one.
void TorchTranslation::drop_repeated() {
  std::map<std::string, std::vector<ir::Value>> known;
  std::map<std::int32_t, ir::Value> same;
  const auto first = [&](ir::Value value) {
    const auto other = same.find(value.id);
    return other == same.end() ? value : other->second;
  };
  std::erase_if(out_.steps, [&](TorchStep& step) {
    for (ir::Value& value : step.operands) value = first(value);
    if (step.cut) step.cut->source = first(step.cut->source);
    if (step.is_random) return false;
    std::string key = fmt::format("{}|{}|{}|{}|{}", step.place, step.plugin, step.join, step.code.text,
                                  step.results.size());
    for (const TorchLiteral& literal : step.code.literals) key += "|" + literal.text;
    for (const std::string& name : step.code.names) key += "|" + name;
    for (const ir::Value value : step.operands) key += fmt::format("|{}", value.id);
    const auto [earlier, is_new] = known.emplace(key, step.results);
    if (is_new) return false;
    for (std::size_t place = 0; place < step.results.size(); ++place)
      same[step.results[place].id] = earlier->second[place];
    return true;
  });
  for (ir::Value& result : out_.results) result = first(result);
}

/// Parts that together are a whole tensor, which nothing else reads, become one step: q, k, v = y.unbind(0).
void TorchTranslation::join_cuts() {
  std::map<std::int32_t, std::vector<std::size_t>> parts, readers;
  for (std::size_t index = 0; index < out_.steps.size(); ++index) {
    const TorchStep& step = out_.steps[index];
    if (step.cut) parts[step.cut->source.id].push_back(index);
    for (const ir::Value value : step.operands) readers[value.id].push_back(index);
  }
  std::set<std::size_t> gone;
  for (auto& [source, cuts] : parts) {
    const TorchCut& first = *out_.steps[cuts[0]].cut;
    const TorchStep& whole = out_.steps[cuts[0]];
    if (cuts.size() < 2 || readers[source].size() != cuts.size() ||
        extents(first.source)[first.axis].coefficient != 0)
      continue;
    std::vector<std::size_t> sorted = cuts;
    std::ranges::sort(sorted, {}, [&](std::size_t index) { return out_.steps[index].cut->begin; });
    std::int64_t next = 0;
    std::vector<std::string> widths;
    const bool fits = std::ranges::all_of(sorted, [&](std::size_t index) {
      const TorchStep& step = out_.steps[index];
      const bool follows = step.cut->begin == next && step.cut->axis == first.axis &&
                           step.cut->is_index == first.is_index && step.place == whole.place &&
                           step.plugin == whole.plugin && step.join == whole.join;
      widths.push_back(std::to_string(step.cut->end - step.cut->begin));
      next = step.cut->end;
      return follows;
    });
    if (!fits || next != type(first.source).shape[first.axis]) continue;
    TorchStep joined = whole;
    joined.results.clear();
    joined.hints.clear();
    for (const std::size_t index : sorted) {
      joined.results.push_back(out_.steps[index].results[0]);
      joined.hints.push_back(out_.steps[index].hints[0]);
      gone.insert(index);
    }
    const bool equal =
        std::ranges::all_of(widths, [&](const std::string& width) { return width == widths[0]; });
    const bool last = first.axis + 1 == type(first.source).shape.size();
    const std::string axis = last ? "-1" : std::to_string(first.axis);
    joined.code = {.text = operand_mark(0, kPrimary), .literals = {}, .names = {}};
    joined.operands = {first.source};
    if (first.is_index) {
      joined.code.text += fmt::format(".unbind({})", axis);
    } else if (equal) {
      joined.code.text += fmt::format(".chunk({}, {})", widths.size(), axis);
    } else {
      joined.code.literals = {{fmt::format("({})", fmt::join(widths, ", ")), "widths"}};
      joined.code.text += fmt::format(".split({}, {})", literal_mark(0), axis);
    }
    joined.cut.reset();
    gone.erase(cuts[0]);
    out_.steps[cuts[0]] = std::move(joined);
  }
  std::vector<TorchStep> kept;
  for (std::size_t index = 0; index < out_.steps.size(); ++index) {
    if (!gone.contains(index)) kept.push_back(std::move(out_.steps[index]));
  }
  out_.steps = std::move(kept);
}

void TorchTranslation::helper(const std::string& name) {
  if (std::ranges::find(out_.helpers, name) == out_.helpers.end()) out_.helpers.push_back(name);
}

std::string TorchTranslation::table(const ir::Op& constant) {
  const auto& values = constant.attributes.get<ir::Doubles>("values");
  const ir::TensorType& type_of = type(constant.results[0]);
  for (const auto& [name, known] : out_.tables) {
    if (known == type_of && out_.table_values.at(name) == values) return name;
  }
  const std::string name = fmt::format("TABLE_{}", out_.tables.size());
  out_.tables.emplace(name, type_of);
  out_.table_values.emplace(name, values);
  return name;
}

TorchSteps torch_steps(const ExportFunction& forward, const std::vector<std::string>& plugins) {
  return TorchTranslation(forward, plugins).take();
}

}  // namespace rewire::runtime
