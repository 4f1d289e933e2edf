#include "runtime/explore/formula_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "ir/opcodes.h"

namespace rewire::runtime {
namespace {

using ir::Op;
using ir::Opcode;
using ir::Value;

// A function is worth its line if it saves about as much: at least four operations, used three times. With
// more than five arguments or two dozen operations it is not readable.
constexpr std::size_t kFewestOperations = 4, kFewestUses = 3, kMostParameters = 5, kMostWritten = 24;

}  // namespace

FormulaParts::FormulaParts(const ir::Function& function, std::function<bool(const Op&)> is_inside)
    : function_(function), is_inside_(std::move(is_inside)), definitions_(function.definitions()) {
  std::map<std::string, std::int32_t> firsts;
  for (const Op& op : function_.body) {
    if (!is_inside_(op) || is_transparent(op) || op.results.size() != 1) continue;
    const std::int32_t id = op.results[0].id;
    same_[id] = firsts.try_emplace(key_of(op, true), id).first->second;
  }
}

const Op* FormulaParts::definition(Value value) const {
  const std::int32_t at = definitions_[static_cast<std::size_t>(value.id)];
  return at < 0 ? nullptr : &function_.body[static_cast<std::size_t>(at)];
}

bool FormulaParts::is_transparent(const Op& op) {
  return op.code == Opcode::reshape || op.code == Opcode::broadcast || op.code == Opcode::cast ||
         op.code == Opcode::stop_gradient;
}

Value FormulaParts::resolved(Value value) const {
  for (const Op* op = definition(value); op != nullptr && is_inside_(*op) && is_transparent(*op);
       op = definition(value))
    value = op->operands[0];
  const auto same = same_.find(value.id);
  return same == same_.end() ? value : Value{same->second};
}

bool FormulaParts::is_written(const Op& op) const {
  if (!is_inside_(op) || is_transparent(op)) return false;
  return std::ranges::all_of(op.results, [&](Value result) { return resolved(result) == result; });
}

bool FormulaParts::is_symbol(Value value) const {
  const Op* op = definition(value);
  if (op == nullptr || !is_inside_(*op) || op->code == Opcode::param) return true;
  return op->code == Opcode::slice && is_symbol(resolved(op->operands[0]));
}

/// Returns a key of what the op does and, if requested, of its operands.
std::string FormulaParts::key_of(const Op& op, bool with_operands) const {
  std::string key = fmt::format("{}", static_cast<int>(op.code));
  for (const auto& [attribute, value] : op.attributes) {
    const std::string& name = attribute;
    std::visit(
        [&](const auto& content) {
          using T = std::decay_t<decltype(content)>;
          if constexpr (std::is_same_v<T, ir::Ints> || std::is_same_v<T, ir::Doubles>) {
            key += fmt::format(";{}=[{}]", name, fmt::join(content.begin(), content.end(), " "));
          } else {
            key += fmt::format(";{}={}", name, content);
          }
        },
        value);
  }
  for (const Value result : op.results) {
    const ir::TensorType& type = function_.type(result);
    key += fmt::format(":{}[{}]", static_cast<int>(type.dtype), fmt::join(type.shape, " "));
  }
  for (std::size_t i = 0; with_operands && i < op.operands.size(); ++i)
    key += fmt::format(",{}", resolved(op.operands[i]).id);
  return key;
}

/// A value that the lines of two roots read becomes a root itself. Readers come after what they read.
void FormulaParts::add_owners(std::set<std::int32_t>& roots) const {
  std::map<std::int32_t, std::int32_t> owner;
  for (auto op = function_.body.rbegin(); op != function_.body.rend(); ++op) {
    if (!is_written(*op)) continue;
    const std::int32_t id = op->results[0].id;
    const auto of = owner.find(id);
    const std::int32_t line = roots.contains(id) || of == owner.end() ? id : of->second;
    for (const Value operand : op->operands) {
      const Value read = resolved(operand);
      if (is_symbol(read) || definition(read)->code == Opcode::constant) continue;
      if (owner.try_emplace(read.id, line).first->second != line) roots.insert(read.id);
    }
  }
}

bool FormulaParts::is_leaf(Value value) const {
  if (roots_.contains(value.id) || is_symbol(value)) return true;
  const Op* op = definition(value);
  return op->code == Opcode::slice && is_leaf(resolved(op->operands[0]));
}

bool FormulaParts::describe(Value value, Part& part, std::map<std::int32_t, std::size_t>& seen) const {
  const Op& op = *definition(value);
  seen.emplace(value.id, seen.size());
  part.interior.insert(value.id);
  if (op.code != Opcode::constant && ++part.operations > kMostWritten) return false;
  part.structure += key_of(op, false) + "(";
  for (const Value operand : op.operands) {
    const Value read = resolved(operand);
    if (is_leaf(read)) {
      part.structure += '.';
      part.leaves.push_back(read);
    } else if (const auto before = seen.find(read.id); before != seen.end()) {
      part.structure += fmt::format("#{}", before->second);
    } else if (!describe(read, part, seen)) {
      return false;
    }
  }
  part.structure += ')';
  return true;
}

/// Returns the number of written operations if a value that is read twice is written twice.
std::size_t FormulaParts::written_size(Value value, std::map<std::int32_t, std::size_t>& sizes) const {
  if (const auto known = sizes.find(value.id); known != sizes.end()) return known->second;
  std::size_t size = 1;
  for (const Value operand : definition(value)->operands) {
    const Value read = resolved(operand);
    if (size <= kMostWritten && !is_leaf(read)) size += written_size(read, sizes);
  }
  return sizes[value.id] = size;
}

/// Returns the sums that are the first terms of a longer sum: where they end is arbitrary.
std::set<std::int32_t> FormulaParts::partial_sums() const {
  std::set<std::int32_t> partial;
  for (const Op& op : function_.body) {
    if (op.code != Opcode::add || !is_written(op)) continue;
    for (const Value operand : op.operands) {
      const Value term = resolved(operand);
      if (!is_symbol(term) && definition(term)->code == Opcode::add) partial.insert(term.id);
    }
  }
  return partial;
}

void FormulaParts::find_patterns(std::set<std::int32_t> roots) {
  add_owners(roots);
  roots_ = std::move(roots);
  std::vector<Part> parts;
  std::map<std::int32_t, std::size_t> sizes;
  const std::set<std::int32_t> partial = partial_sums();
  for (const Op& op : function_.body) {
    if (!is_written(op) || op.results.size() != 1 || op.code == Opcode::constant ||
        is_symbol(op.results[0]) || partial.contains(op.results[0].id))
      continue;
    Part part{op.results[0], {}, {}, {}, 0};
    std::map<std::int32_t, std::size_t> seen;
    if (describe(part.top, part, seen) && part.operations >= kFewestOperations &&
        written_size(part.top, sizes) <= kMostWritten)
      parts.push_back(std::move(part));
  }
  std::ranges::stable_sort(parts, std::ranges::greater(), &Part::operations);
  std::map<std::string, std::vector<const Part*>> alike;
  for (const Part& part : parts) alike[part.structure].push_back(&part);
  for (const Part& part : parts) {
    const std::vector<const Part*>& all = alike[part.structure];
    if (all.front() == &part) add_pattern(all);
  }
}

/// Adds a pattern of the parts that are not within a part of another pattern.
void FormulaParts::add_pattern(const std::vector<const Part*>& parts) {
  std::vector<const Part*> free;
  for (const Part* part : parts)
    if (!taken_.contains(part->top.id)) free.push_back(part);
  if (free.size() < kFewestUses) return;

  std::vector<Value> fixed;
  std::vector<std::vector<Value>> columns;  // per parameter, the value that each part has for it
  for (std::size_t leaf = 0; leaf < free.front()->leaves.size(); ++leaf) {
    std::vector<Value> column;
    for (const Part* part : free) column.push_back(part->leaves[leaf]);
    if (std::ranges::count(column, column.front()) == std::ssize(column)) {
      fixed.push_back(column.front());
    } else if (std::ranges::find(columns, column) == columns.end()) {
      columns.push_back(std::move(column));
    }
  }
  if (columns.size() > kMostParameters) return;
  for (std::size_t i = 0; i < free.size(); ++i) {
    // The pattern is written from a part whose values are distinct, so that each value
    // identifies its parameter.
    std::set<Value> distinct(fixed.begin(), fixed.end());
    const std::size_t others = distinct.size();
    Pattern pattern{free[i]->top, {}, fixed, free[i]->interior};
    for (const std::vector<Value>& column : columns) pattern.parameters.push_back(column[i]);
    distinct.insert(pattern.parameters.begin(), pattern.parameters.end());
    if (distinct.size() < others + columns.size()) continue;
    take(free, columns, std::move(pattern));
    return;
  }
}

void FormulaParts::take(const std::vector<const Part*>& parts, const std::vector<std::vector<Value>>& columns,
                        Pattern pattern) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Use use{patterns_.size(), {}};
    for (const std::vector<Value>& column : columns) use.arguments.push_back(column[i]);
    uses_.emplace(parts[i]->top.id, std::move(use));
    taken_.insert(parts[i]->interior.begin(), parts[i]->interior.end());
  }
  patterns_.push_back(std::move(pattern));
}

const FormulaParts::Use* FormulaParts::use_of(Value value) const {
  const auto found = uses_.find(value.id);
  return found == uses_.end() ? nullptr : &found->second;
}

}  // namespace rewire::runtime
