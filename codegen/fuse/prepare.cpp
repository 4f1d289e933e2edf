// Rewrites before fusion; see prepare.h.
#include "codegen/fuse/prepare.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "codegen/lowering_steps.h"
#include "ir/builder.h"
#include "ir/error.h"
#include "ir/ops/op_info.h"

namespace rewire::codegen {
namespace {

using ir::Builder;
using ir::Function;
using ir::Module;
using ir::Op;
using ir::Opcode;
using ir::Value;

std::vector<int> count_uses(const Function& function) {
  std::vector<int> uses(function.types.size());
  for (const Op& op : function.body) {
    for (Value operand : op.operands) ++uses[static_cast<std::size_t>(operand.id)];
  }
  for (const auto& result : function.results) ++uses[static_cast<std::size_t>(result.value.id)];
  return uses;
}

void drop_dead(Function& function) {
  std::vector<int> uses = count_uses(function);
  for (std::size_t i = function.body.size(); i-- > 0;) {
    Op& op = function.body[i];
    const bool live =
        op.results.empty() || std::any_of(op.results.begin(), op.results.end(), [&](Value result) {
          return uses[static_cast<std::size_t>(result.id)] > 0;
        });
    if (live) continue;
    for (Value operand : op.operands) --uses[static_cast<std::size_t>(operand.id)];
    function.body.erase(function.body.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

/// Copies of what a call computes (clones of ir/passes/recompute among them) become one: the call then writes
/// its result where the copy would stand.
void unify_views_of_calls(Function& function) {
  std::map<std::int32_t, Value> replacement;             // by Value::id
  std::set<std::int32_t> of_calls;                       // values that are a call's result seen through views
  std::map<std::int32_t, std::vector<const Op*>> views;  // by the operand's Value::id
  for (Op& op : function.body) {
    for (Value& operand : op.operands) {
      if (const auto it = replacement.find(operand.id); it != replacement.end()) operand = it->second;
    }
    if (!is_view(op.code)) {
      const bool call = !is_leaf(op.code) && !is_fusible(op.code);
      for (Value result : op.results) {
        if (call) of_calls.insert(result.id);
      }
      continue;
    }
    if (!of_calls.contains(op.operands[0].id)) continue;
    of_calls.insert(op.results[0].id);
    std::vector<const Op*>& known = views[op.operands[0].id];
    const auto same = std::find_if(known.begin(), known.end(), [&](const Op* other) {
      return other->code == op.code && other->attributes == op.attributes &&
             function.type(other->results[0]) == function.type(op.results[0]);
    });
    if (same == known.end()) {
      known.push_back(&op);
    } else {
      replacement[op.results[0].id] = (*same)->results[0];
    }
  }
  for (auto& result : function.results) {
    if (const auto it = replacement.find(result.value.id); it != replacement.end()) result.value = it->second;
  }
}

// The smallest index with x = max(x), or of a NaN, which is the max then: -max(select(…, -index, -extent)).
void lower_argmax(Module& module, Function& function) {
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    if (function.body[i].code != Opcode::argmax) continue;
    const Op op = function.body[i];
    Builder b(module, function);
    b.set_position(i);
    b.set_location(op.location);
    const Value x = op.operands[0];
    const ir::TensorType type = b.type(x);
    std::int64_t axis = op.attributes.get_int("axis");
    if (axis < 0) axis += type.rank();
    const std::int64_t extent = type.shape[static_cast<std::size_t>(axis)];
    Value is_max = b.compare("eq", x, b.max(x, {axis}));
    if (ir::is_float(type.dtype)) is_max = b.binary(Opcode::logical_or, is_max, b.compare("ne", x, x));
    const Value index =
        b.emit(Opcode::iota, {}, {{"axis", axis}}, ir::TensorType{ir::DType::f64, type.shape});
    const Value none = b.broadcast(b.constant(-static_cast<double>(extent - 1), ir::DType::f64), type.shape);
    const Value candidate = b.select(is_max, b.unary(Opcode::neg, index), none);
    const Value found = b.cast(b.unary(Opcode::neg, b.max(candidate, {axis})), b.type(op.results[0]).dtype);
    const std::size_t next = b.position();
    function.replace_uses(op.results[0], found, next + 1);
    function.body.erase(function.body.begin() + static_cast<std::ptrdiff_t>(next));
    i = next - 1;
  }
}

// A pad as a window of zeros around its operand along one axis.
struct PaddedWindow {
  std::int64_t axis, low, limit;
  Value operand;
};

std::optional<PaddedWindow> padded_window(const Function& function, const Op& op) {
  if (op.code != Opcode::pad) return std::nullopt;
  const Op& pad = op;
  const ir::Attribute* value = pad.attributes.find("value");
  if (value != nullptr && std::get<double>(*value) != 0) return std::nullopt;
  const ir::Ints& low = pad.attributes.get_ints("low");
  const ir::Ints& high = pad.attributes.get_ints("high");
  std::optional<PaddedWindow> window;
  for (std::size_t axis = 0; axis < low.size(); ++axis) {
    if (low[axis] == 0 && high[axis] == 0) continue;
    if (window || low[axis] < 0 || high[axis] < 0) return std::nullopt;
    const std::int64_t extent = function.type(pad.operands[0]).shape[axis];
    window = PaddedWindow{static_cast<std::int64_t>(axis), low[axis], low[axis] + extent, pad.operands[0]};
  }
  return window;
}

// The windows that a tree of adds sums, each add used once; false if a leaf is no padded window of the same
// axis.
bool collect_windows(const Function& function, const std::vector<std::int32_t>& definition,
                     const std::vector<int>& uses, Value value, bool root,
                     std::vector<PaddedWindow>& windows) {
  const std::int32_t at = definition[static_cast<std::size_t>(value.id)];
  if (at < 0 || (!root && uses[static_cast<std::size_t>(value.id)] != 1)) return false;
  const Op& op = function.body[static_cast<std::size_t>(at)];
  if (op.code == Opcode::add) {
    return collect_windows(function, definition, uses, op.operands[0], false, windows) &&
           collect_windows(function, definition, uses, op.operands[1], false, windows);
  }
  const auto window = padded_window(function, op);
  if (!window || (!windows.empty() && windows[0].axis != window->axis)) return false;
  windows.push_back(*window);
  return true;
}

void merge_pads(Module& module, Function& function) {
  std::vector<std::int32_t> definitions = function.definitions();
  std::vector<int> uses = count_uses(function);
  for (std::size_t i = function.body.size(); i-- > 0;) {
    if (function.body[i].code != Opcode::add) continue;
    const Op op = function.body[i];
    std::vector<PaddedWindow> windows;
    if (!collect_windows(function, definitions, uses, op.results[0], true, windows)) continue;
    std::sort(windows.begin(), windows.end(), [](const auto& a, const auto& b) { return a.low < b.low; });
    std::int64_t reached = 0;
    bool tiles = true;
    for (const PaddedWindow& window : windows) {
      tiles = tiles && window.low == reached;
      reached = window.limit;
    }
    if (!tiles || reached != function.type(op.results[0]).shape[static_cast<std::size_t>(windows[0].axis)])
      continue;
    std::vector<Value> parts;
    for (const PaddedWindow& window : windows) parts.push_back(window.operand);
    Builder b(module, function);
    b.set_position(i);
    b.set_location(op.location);
    const Value whole = b.concat(parts, static_cast<int>(windows[0].axis));
    function.replace_uses(op.results[0], whole, b.position());
    drop_dead(function);
    definitions = function.definitions();
    uses = count_uses(function);
    i = std::min(i, function.body.size());
  }
}

// Inserts a copy of operand `operand` of op `at` (a reshape to its own shape) and returns how many ops were
// added before it.
Value insert_copy(Module& module, Function& function, std::vector<bool>& copy, std::size_t at, Value value,
                  const std::string& location) {
  Builder b(module, function);
  b.set_position(at);
  b.set_location(location);
  const Value copied = b.emit(Opcode::reshape, {value}, {}, function.type(value));
  copy.insert(copy.begin() + static_cast<std::ptrdiff_t>(at), true);
  return copied;
}

// True if `value` is the result of an op that writes memory of its own.
bool is_computed(const Function& function, const std::vector<std::int32_t>& definition, Value value) {
  const std::int32_t at = definition[static_cast<std::size_t>(value.id)];
  if (at < 0) return false;
  const Opcode code = function.body[static_cast<std::size_t>(at)].code;
  return !is_view(code) && !is_leaf(code);
}

void copy_concat_operands(Module& module, Function& function, std::vector<bool>& copy) {
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    if (function.body[i].code != Opcode::concat) continue;
    for (std::size_t k = 0; k < function.body[i].operands.size(); ++k) {
      const Op& concat = function.body[i];
      const Value operand = concat.operands[k];
      const bool again =
          std::find(concat.operands.begin(), concat.operands.begin() + static_cast<std::ptrdiff_t>(k),
                    operand) != concat.operands.begin() + static_cast<std::ptrdiff_t>(k);
      // Another concat of the same value cannot hold the same memory either.
      std::size_t concats = 0;
      for (const Op& other : function.body) {
        if (other.code == Opcode::concat)
          concats +=
              static_cast<std::size_t>(std::count(other.operands.begin(), other.operands.end(), operand));
      }
      if (!again && concats == 1 && is_computed(function, function.definitions(), operand)) continue;
      const Value copied = insert_copy(module, function, copy, i, operand, concat.location);
      ++i;
      function.body[i].operands[k] = copied;
    }
  }
}

// Where a copy of a result goes in: at the end, but before an update of the state that it may be a view of.
std::size_t place_of_copy(const Function& function, const std::vector<std::int32_t>& definition,
                          Value value) {
  // An argument is defined before the first op.
  const std::int32_t before = std::max(definition[static_cast<std::size_t>(value.id)], -1);
  const auto begin = function.body.begin() + (before + 1);
  const auto update =
      std::find_if(begin, function.body.end(), [](const Op& op) { return op.code == Opcode::update; });
  return static_cast<std::size_t>(update - function.body.begin());
}

void copy_results(Module& module, Function& function, std::vector<bool>& copy) {
  std::set<Value> seen;
  for (auto& result : function.results) {
    const auto definition = function.definitions();
    bool feeds_concat = false;
    for (const Op& op : function.body) {
      if (op.code == Opcode::concat) {
        feeds_concat = feeds_concat ||
                       std::find(op.operands.begin(), op.operands.end(), result.value) != op.operands.end();
      }
    }
    if (!feeds_concat && is_computed(function, definition, result.value) && seen.insert(result.value).second)
      continue;
    result.value = insert_copy(module, function, copy, place_of_copy(function, definition, result.value),
                               result.value, "result." + result.name);
    seen.insert(result.value);
  }
}

bool widens(const Function& function, const Op& op) {
  if (op.code != Opcode::cast || function.type(op.results[0]).dtype != ir::DType::f32) return false;
  const ir::DType from = function.type(op.operands[0]).dtype;
  return from == ir::DType::bf16 || from == ir::DType::f16;
}

// Each reader of a 16-bit value's f32 gets a cast of its own: kernels then read the value, and no f32 of it
// is ever stored.
void copy_widening_casts(Function& function) {
  std::map<std::int32_t, Op> casts;  // by result
  std::set<std::int32_t> taken;
  const std::vector<Op> old_body = std::move(function.body);
  function.body.clear();
  for (Op op : old_body) {
    std::map<std::int32_t, Value> own;
    for (Value& operand : op.operands) {
      const auto cast = casts.find(operand.id);
      if (cast == casts.end()) continue;
      const auto [copy, fresh] = own.try_emplace(operand.id, operand);
      if (fresh && !taken.insert(operand.id).second) {
        Op again = cast->second;
        again.results[0] = copy->second = function.new_value(ir::TensorType(function.type(operand)));
        function.body.push_back(std::move(again));
      }
      operand = copy->second;
    }
    if (widens(function, op)) casts.emplace(op.results[0].id, op);
    function.body.push_back(std::move(op));
  }
}

}  // namespace

bool is_view(Opcode code) {
  switch (code) {
    case Opcode::reshape:
    case Opcode::transpose:
    case Opcode::broadcast:
    case Opcode::slice:
    case Opcode::stop_gradient:
    case Opcode::all_reduce:
      return true;
    default:
      return false;
  }
}

bool is_leaf(Opcode code) {
  return code == Opcode::param || code == Opcode::constant || code == Opcode::iota;
}

bool is_fusible(Opcode code) {
  switch (code) {
    case Opcode::sum:
    case Opcode::max:
    case Opcode::pad:
    case Opcode::gather:
    case Opcode::random_uniform:
    case Opcode::random_normal:
    case Opcode::update:
      return true;
    default:
      return ir::op_info(code).op_class == ir::OpClass::pointwise && !is_view(code);
  }
}

Prepared prepare(const Module& module, const Function& function, const ir::LeftOut& left_out) {
  Prepared prepared;
  prepared.module = module;
  prepared.module.functions = {function};
  Module& m = prepared.module;
  Function& f = m.functions.front();
  const auto does = [&](std::string_view step) { return !left_out.contains(step); };
  if (does(kUnifyViews)) unify_views_of_calls(f);
  drop_dead(f);
  if (does(kWideningCasts)) copy_widening_casts(f);
  if (does(kLowerArgmax)) lower_argmax(m, f);
  if (does(kMergePads)) merge_pads(m, f);
  prepared.copy.assign(f.body.size(), false);
  copy_concat_operands(m, f, prepared.copy);
  copy_results(m, f, prepared.copy);
  return prepared;
}

}  // namespace rewire::codegen
