#include "ir/passes/chunk_rows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "ir/passes/dce.h"

namespace rewire::ir {
namespace {

/// How an op computes its result by chunks of rows.
struct RowRule {
  std::vector<bool> by_row;  // for each operand: a chunk of its rows; else the whole operand
  bool adds_up = false;      // the result is a sum over the rows
};

Ints ints(const Op& op, std::string_view name) {
  return op.attributes.get_ints(name);
}

bool all_at_least(const Ints& axes, std::size_t lowest) {
  return std::ranges::all_of(axes,
                             [&](std::int64_t axis) { return axis >= static_cast<std::int64_t>(lowest); });
}

/// One product, and the ops that are computed by chunks of its rows.
class Region {
 public:
  Region(Module& module, Function& function, int product)
      : module_(module), function_(function), definitions_(function.definitions()) {
    const TensorType& wide = function.type(function.body[at(product)].results[0]);
    wide_ = wide.elements();
    rows_ = wide_ / wide.shape.back();
    ops_.insert(product);
    users_.resize(function.types.size());
    for (std::size_t i = 0; i < function.body.size(); ++i) {
      for (Value operand : function.body[i].operands) users_[at(operand)].push_back(static_cast<int>(i));
    }
  }

  /// Finds the ops. Returns whether all of them can be chunked.
  bool grow() {
    for (std::size_t before = 0; before != ops_.size();) {
      before = ops_.size();
      add_readers();
      add_between();
    }
    for (const Argument& result : function_.results) {
      if (is_wide(result.value) && ops_.contains(definitions_[at(result.value)])) return false;
    }
    return std::ranges::all_of(ops_, [&](int op) { return is_chunked(op); });
  }

  void emit(std::int64_t rows_a_chunk) {
    std::vector<Op> old = std::move(function_.body);
    function_.body.clear();
    old_ = &old;
    const auto last = static_cast<std::size_t>(*ops_.rbegin());
    std::vector<Op> later;
    for (std::size_t i = 0; i <= last; ++i) {
      if (ops_.contains(static_cast<int>(i))) continue;
      (after_[i] ? later : function_.body).push_back(old[i]);
    }
    Builder b(module_, function_);
    for (std::int64_t start = 0; start < rows_; start += rows_a_chunk) {
      start_ = start;
      limit_ = std::min(rows_, start + rows_a_chunk);
      chunk_.clear();
      for (int op : ops_) emit_chunk(b, old[at(op)]);
    }
    const std::map<Value, Value> replaced = finished(b, old);
    const std::size_t first_reader = function_.body.size();
    std::ranges::move(later, std::back_inserter(function_.body));
    std::move(old.begin() + static_cast<std::ptrdiff_t>(last) + 1, old.end(),
              std::back_inserter(function_.body));
    for (const auto& [from, to] : replaced) function_.replace_uses(from, to, first_reader);
  }

 private:
  static std::size_t at(Value value) { return static_cast<std::size_t>(value.id); }
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  const std::vector<Op>& body() const { return old_ != nullptr ? *old_ : function_.body; }
  const TensorType& type(Value value) const { return function_.type(value); }
  bool is_wide(Value value) const { return type(value).elements() >= wide_; }

  /// Returns how many leading axes number the rows; 0 if none do.
  std::size_t leading(Value value) const {
    std::int64_t product = 1;
    const Shape& shape = type(value).shape;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      product *= shape[axis];
      if (product == rows_) return axis + 1;
    }
    return 0;
  }

  void add_readers() {
    const std::set<int> found = ops_;
    for (int op : found) {
      for (Value result : function_.body[at(op)].results) {
        if (is_wide(result)) ops_.insert(users_[at(result)].begin(), users_[at(result)].end());
      }
    }
  }

  /// Adds the ops between two of the region.
  void add_between() {
    const std::size_t count = function_.body.size();
    after_.assign(count, false);
    for (std::size_t i = 0; i < count; ++i) {
      for (Value operand : function_.body[i].operands) {
        const std::int32_t from = definitions_[at(operand)];
        if (from >= 0 && (after_[at(from)] || ops_.contains(from))) after_[i] = true;
      }
    }
    std::vector<bool> before(count, false);
    for (std::size_t i = count; i-- > 0;) {
      const bool inside = ops_.contains(static_cast<int>(i));
      if (before[i] && after_[i]) ops_.insert(static_cast<int>(i));
      if (!before[i] && !inside) continue;
      for (Value operand : function_.body[i].operands) {
        if (const std::int32_t from = definitions_[at(operand)]; from >= 0) before[at(from)] = true;
      }
    }
  }

  bool is_chunked(int index) const {
    const Op& op = function_.body[at(index)];
    const std::optional<RowRule> rule = rule_of(op);
    if (!rule) return false;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const std::int32_t from = definitions_[at(op.operands[i])];
      const bool inside = from >= 0 && ops_.contains(from);
      if (!rule->by_row[i] && inside) return false;
      if (inside && rule_of(function_.body[at(from)]).value_or(RowRule{}).adds_up) return false;
    }
    return true;
  }

  std::optional<RowRule> rule_of(const Op& op) const {
    if (op.results.size() != 1) return std::nullopt;
    const RowRule by_row{std::vector<bool>(op.operands.size(), true)};
    const std::size_t lead = leading(op.results[0]);
    const std::size_t from = op.operands.empty() ? 0 : leading(op.operands[0]);
    const auto kept = [&](bool is_row_by_row) {
      return is_row_by_row ? std::optional<RowRule>(by_row) : std::nullopt;
    };
    switch (op.code) {
      case Opcode::constant:
        return kept(lead > 0 && op.attributes.get<Doubles>("values").empty());
      case Opcode::iota:
        return kept(lead > 0 && all_at_least({op.attributes.get_int("axis")}, lead));
      case Opcode::reshape:
        return kept(lead > 0 && from > 0);
      case Opcode::broadcast:
        return broadcast_rule(op, lead);
      case Opcode::argmax:
        return kept(from > 0 && all_at_least({op.attributes.get_int("axis")}, from));
      case Opcode::max:
        return kept(from > 0 && all_at_least(ints(op, "axes"), from));
      case Opcode::sum:
        return sum_rule(op, from);
      case Opcode::matmul:
        return product_rule(op);
      default:
        return kept(op_info(op.code).op_class == OpClass::pointwise && lead > 0);
    }
  }

  std::optional<RowRule> broadcast_rule(const Op& op, std::size_t lead) const {
    if (lead == 0) return std::nullopt;
    const Shape& from = type(op.operands[0]).shape;
    const Shape& to = type(op.results[0]).shape;
    if (std::equal(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(lead), to.begin()))
      return RowRule{{true}};
    const bool serves_all = std::all_of(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(lead),
                                        [](std::int64_t extent) { return extent == 1; });
    return serves_all ? std::optional<RowRule>(RowRule{{false}}) : std::nullopt;
  }

  std::optional<RowRule> sum_rule(const Op& op, std::size_t lead) const {
    if (lead == 0) return std::nullopt;
    const Ints& axes = op.attributes.get_ints("axes");
    if (all_at_least(axes, lead)) return RowRule{{true}};
    if (!is_float(type(op.operands[0]).dtype)) return std::nullopt;  // no product computes it: row_sum()
    const Shape& rows = type(op.operands[0]).shape;
    for (std::size_t axis = 0; axis < rows.size(); ++axis) {
      const bool is_summed = std::ranges::find(axes, static_cast<std::int64_t>(axis)) != axes.end();
      if (rows[axis] > 1 && is_summed != (axis < lead)) return std::nullopt;
    }
    return RowRule{{true}, true};
  }

  std::optional<RowRule> product_rule(const Op& op) const {
    const bool transpose_a = op.attributes.get_bool("transpose_a");
    const Shape& a = type(op.operands[0]).shape;
    const Shape& b = type(op.operands[1]).shape;
    if (b.size() != 2) return std::nullopt;
    if (!transpose_a && leading(op.operands[0]) + 1 == a.size()) return RowRule{{true, false}};
    if (transpose_a && !op.attributes.get_bool("transpose_b") && a.size() == 2 && a[0] == rows_)
      return RowRule{{true, true}, true};
    return std::nullopt;
  }

  /// Returns the type of a chunk: its rows are one axis.
  TensorType chunk_type(Value value) const {
    TensorType chunk = type(value);
    const auto lead = static_cast<std::ptrdiff_t>(leading(value));
    chunk.shape.erase(chunk.shape.begin(), chunk.shape.begin() + lead);
    chunk.shape.insert(chunk.shape.begin(), limit_ - start_);
    return chunk;
  }

  /// Returns the chunk of a value: made before, computed here if it is wide, else cut out.
  Value chunk_of(Builder& b, Value value) {
    if (const auto made = chunk_.find(value); made != chunk_.end()) return made->second;
    const std::int32_t from = definitions_[at(value)];
    if (from >= 0 && is_wide(value)) {
      const Op& op = body()[at(from)];
      if (const std::optional<RowRule> rule = rule_of(op);
          rule && !rule->adds_up && op.code != Opcode::matmul)
        return chunk_[value] = emit_op(b, op, *rule);
    }
    const std::size_t lead = leading(value);
    Shape flat(type(value).shape.begin() + static_cast<std::ptrdiff_t>(lead), type(value).shape.end());
    flat.insert(flat.begin(), rows_);
    const Value rows = b.reshape(value, std::move(flat));
    return chunk_[value] = b.slice(rows, 0, start_, limit_);
  }

  Value emit_op(Builder& b, const Op& op, const RowRule& rule) {
    std::vector<Value> operands;
    for (std::size_t i = 0; i < op.operands.size(); ++i)
      operands.push_back(rule.by_row[i] ? chunk_of(b, op.operands[i]) : op.operands[i]);
    b.set_location(op.location);
    const Value result = op.results[0];
    if (rule.adds_up && op.code == Opcode::sum && is_wide(op.operands[0])) return row_sum(b, operands[0]);
    Attributes attributes = op.attributes;
    const auto shift = [&](std::int64_t axis, Value of) {
      return axis + 1 - static_cast<std::int64_t>(leading(of));
    };
    if (op.code == Opcode::iota) attributes.set("axis", shift(op.attributes.get_int("axis"), result));
    if (op.code == Opcode::argmax)
      attributes.set("axis", shift(op.attributes.get_int("axis"), op.operands[0]));
    if (op.code == Opcode::sum || op.code == Opcode::max) {
      Ints axes;
      if (rule.adds_up) {
        axes = {0};
      } else {
        for (std::int64_t axis : ints(op, "axes")) axes.push_back(shift(axis, op.operands[0]));
      }
      attributes.set("axes", axes);
    }
    if (op.code == Opcode::broadcast && !rule.by_row[0]) {
      Shape shape(type(operands[0]).shape.begin() + static_cast<std::ptrdiff_t>(leading(result)),
                  type(operands[0]).shape.end());
      shape.insert(shape.begin(), 1);
      operands[0] = b.reshape(operands[0], std::move(shape));
    }
    std::optional<TensorType> requested;
    if (op_info(op.code).typed) requested = chunk_type(result);
    return b.emit(op.code, operands, std::move(attributes), std::move(requested));
  }

  /// Returns the sum of a chunk's rows as a product: a call, which ends the chunk. Kernels that sum would be fused with
  /// the sum of all chunks, to one that reads all of them.
  static Value row_sum(Builder& b, Value chunk) {
    const TensorType type = b.type(chunk);
    const Value rows = b.reshape(chunk, {type.shape[0], type.elements() / type.shape[0]});
    const Value sum = b.matmul(b.constant(1, type.dtype, {type.shape[0], 1}), rows, true);
    Shape shape = type.shape;
    shape[0] = 1;
    return b.reshape(sum, std::move(shape));
  }

  void emit_chunk(Builder& b, const Op& op) {
    const RowRule rule = *rule_of(op);
    const Value result = op.results[0];
    const Value made = emit_op(b, op, rule);
    if (!rule.adds_up) {
      chunk_[result] = made;
      if (is_read_outside(result)) parts_[result].push_back(made);
      return;
    }
    const DType dtype = type(result).dtype;
    const Value part = is_narrow(dtype) ? b.cast(made, DType::f32) : made;
    const auto [total, is_first] = totals_.emplace(result, part);
    if (!is_first) total->second = b.add(total->second, part);
  }

  static bool is_narrow(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

  bool is_read_outside(Value value) const {
    const bool is_result =
        std::ranges::any_of(function_.results, [&](const Argument& result) { return result.value == value; });
    return is_result ||
           std::ranges::any_of(users_[at(value)], [&](int user) { return !ops_.contains(user); });
  }

  /// Defines what others read of the region. Returns the new values by the old ones.
  std::map<Value, Value> finished(Builder& b, const std::vector<Op>& old) const {
    std::map<Value, Value> all;
    const auto define = [&](Value value, Value made) {
      b.set_location(old[at(definitions_[at(value)])].location);
      all[value] = b.reshape(b.cast(made, type(value).dtype), type(value).shape);
    };
    for (const auto& [value, parts] : parts_) define(value, b.concat(parts, 0));
    for (const auto& [value, total] : totals_) define(value, total);
    return all;
  }

  Module& module_;
  Function& function_;
  const std::vector<std::int32_t> definitions_;
  std::int64_t wide_ = 0, rows_ = 0;     // elements of the product's result, and its rows
  std::vector<std::vector<int>> users_;  // body indices, by Value::id
  std::set<int> ops_;                    // body indices
  std::vector<bool> after_;              // by body index: depends on the region

  const std::vector<Op>* old_ = nullptr;
  std::int64_t start_ = 0, limit_ = 0;  // rows of the chunk at hand
  std::map<Value, Value> chunk_;        // its values
  std::map<Value, std::vector<Value>> parts_;
  std::map<Value, Value> totals_;
};

/// Returns the rows of a chunk of the op's result; 0 if it is not a product to be chunked.
std::int64_t rows_of_chunk(const Function& function, const Op& op, std::int64_t bytes) {
  if (op.code != Opcode::matmul || op.attributes.get_bool("transpose_a")) return 0;
  if (function.type(op.operands[1]).rank() != 2) return 0;
  const TensorType& result = function.type(op.results[0]);
  const std::int64_t columns = result.shape.back(), rows = result.elements() / columns;
  const std::int64_t most = bytes * rows / result.bytes();  // rows that fit
  if (columns < kWidened * function.type(op.operands[0]).shape.back() || most == 0 || rows < 2 * most)
    return 0;
  const std::int64_t chunks = (rows + most - 1) / most;
  return (rows + chunks - 1) / chunks;
}

/// Returns whether a product was chunked.
bool chunk_one(Module& module, Function& function, std::int64_t bytes) {
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    const std::int64_t rows = rows_of_chunk(function, function.body[i], bytes);
    if (rows == 0) continue;
    Region region(module, function, static_cast<int>(i));
    if (!region.grow()) continue;
    region.emit(rows);
    return true;
  }
  return false;
}

}  // namespace

void chunk_rows(Module& module, PassContext& context) {
  if (context.chunk_bytes == 0) return;
  bool changed = false;
  for (Function& function : module.functions) {
    while (chunk_one(module, function, context.chunk_bytes)) changed = true;
  }
  if (changed) dce(module, context);
}

}  // namespace rewire::ir
