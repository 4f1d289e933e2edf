// Rewrites before fusion; see prepare.h.
#include "codegen/fuse/prepare.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "codegen/fuse/indexed.h"
#include "codegen/lowering_steps.h"
#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
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
  std::vector<bool> dead(function.body.size());
  for (std::size_t i = function.body.size(); i-- > 0;) {
    const Op& op = function.body[i];
    const bool live =
        op.results.empty() || std::any_of(op.results.begin(), op.results.end(), [&](Value result) {
          return uses[static_cast<std::size_t>(result.id)] > 0;
        });
    if (live) continue;
    for (Value operand : op.operands) --uses[static_cast<std::size_t>(operand.id)];
    dead[i] = true;
  }
  std::size_t next = 0;
  std::erase_if(function.body, [&](const Op&) { return dead[next++]; });
}

/// Merges equal views of a call's result (clones of ir/passes/recompute among them) into one. The call then
/// writes its result where the copy would be.
void unify_views_of_calls(Function& function) {
  std::map<std::int32_t, Value> replacement;             // by Value::id
  std::set<std::int32_t> of_calls;                       // a call's results, also seen through views
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

// Lowers argmax to the smallest index where x = max(x), or where x is NaN, which is the max then:
// -max(select(…, -index, -(extent - 1))).
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

// A pad that surrounds its operand with zeros along one axis. The operand is at [low, limit).
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

// Collects the windows that a tree of adds sums. Returns false if an add has another reader, or a leaf is no
// padded window along the same axis.
bool collect_windows(const Function& function, const std::vector<std::int32_t>& definition,
                     const std::vector<int>& uses, Value value, bool root,
                     std::vector<PaddedWindow>& windows) {
  const std::int32_t at = definition[static_cast<std::size_t>(value.id)];
  if (at < 0 || (!root && uses[static_cast<std::size_t>(value.id)] != 1)) return false;
  const Op& op = function.body[static_cast<std::size_t>(at)];
  if (op.code == Opcode::add) {
    // A long sum with another op among its operands is rejected here, before the recursion.
    const bool may_be = std::ranges::all_of(op.operands, [&](Value operand) {
      const std::int32_t part = definition[static_cast<std::size_t>(operand.id)];
      if (part < 0) return false;
      const Opcode code = function.body[static_cast<std::size_t>(part)].code;
      return code == Opcode::add || code == Opcode::pad;
    });
    return may_be && collect_windows(function, definition, uses, op.operands[0], false, windows) &&
           collect_windows(function, definition, uses, op.operands[1], false, windows);
  }
  const auto window = padded_window(function, op);
  if (!window || (!windows.empty() && windows[0].axis != window->axis)) return false;
  windows.push_back(*window);
  return true;
}

// Takes the last op from the body. New ops are built at the end, so that no other op has to move.
Op take_last(Function& function) {
  Op op = std::move(function.body.back());
  function.body.pop_back();
  return op;
}

// Replaces sums of pads by concats, from last to first. Only later ops read a replaced sum, so its readers
// are renamed at the end.
void merge_pads(Module& module, Function& function) {
  const std::vector<std::int32_t> definitions = function.definitions();
  std::vector<int> uses = count_uses(function);
  std::vector<Value> replacement(function.types.size());
  bool merged = false;
  const auto release = [&](Value root) {
    std::vector<Value> unused = {root};
    while (!unused.empty()) {
      const std::int32_t at = definitions[static_cast<std::size_t>(unused.back().id)];
      unused.pop_back();
      if (at < 0) continue;
      for (Value operand : function.body[static_cast<std::size_t>(at)].operands) {
        if (--uses[static_cast<std::size_t>(operand.id)] == 0) unused.push_back(operand);
      }
    }
  };
  for (std::size_t i = function.body.size(); i-- > 0;) {
    if (function.body[i].code != Opcode::add) continue;
    const Value sum = function.body[i].results[0];
    if (uses[static_cast<std::size_t>(sum.id)] == 0) continue;  // part of a sum that is now a concat
    std::vector<PaddedWindow> windows;
    if (!collect_windows(function, definitions, uses, sum, true, windows)) continue;
    std::sort(windows.begin(), windows.end(), [](const auto& a, const auto& b) { return a.low < b.low; });
    std::int64_t reached = 0;
    bool tiles = true;
    for (const PaddedWindow& window : windows) {
      tiles = tiles && window.low == reached;
      reached = window.limit;
    }
    if (!tiles || reached != function.type(sum).shape[static_cast<std::size_t>(windows[0].axis)]) continue;
    std::vector<Value> parts;
    for (const PaddedWindow& window : windows) {
      parts.push_back(window.operand);
      ++uses[static_cast<std::size_t>(window.operand.id)];
    }
    Builder b(module, function);
    b.set_location(function.body[i].location);
    replacement[static_cast<std::size_t>(sum.id)] = b.concat(parts, static_cast<int>(windows[0].axis));
    release(sum);
    function.body[i] = take_last(function);
    merged = true;
  }
  if (!merged) return;
  const auto rename = [&](Value& value) {
    const auto id = static_cast<std::size_t>(value.id);
    if (id < replacement.size() && replacement[id]) value = replacement[id];
  };
  for (Op& op : function.body) std::for_each(op.operands.begin(), op.operands.end(), rename);
  for (auto& result : function.results) rename(result.value);
  drop_dead(function);
}

// Collects ops to insert before others, and inserts them all at once.
class Insertions {
 public:
  Insertions(Module& module, Function& function) : module_(module), function_(function) {}

  // Adds a copy of a value (a reshape to its own shape) before body index `at`, after the copies already
  // added there.
  Value copy(std::size_t at, Value value, const std::string& location) {
    Builder b(module_, function_);
    b.set_location(location);
    const Value copied = b.emit(Opcode::reshape, {value}, {}, function_.type(value));
    ops_[at].push_back(take_last(function_));
    return copied;
  }

  void place(std::vector<bool>& copy) {
    if (ops_.empty()) return;
    std::vector<Op> body;
    std::vector<bool> flags;
    const std::size_t size = function_.body.size();
    auto next = ops_.begin();
    for (std::size_t i = 0; i <= size; ++i) {
      if (next != ops_.end() && next->first == i) {
        std::move(next->second.begin(), next->second.end(), std::back_inserter(body));
        flags.resize(body.size(), true);
        ++next;
      }
      if (i == size) break;
      body.push_back(std::move(function_.body[i]));
      flags.push_back(copy[i]);
    }
    function_.body = std::move(body);
    copy = std::move(flags);
  }

 private:
  Module& module_;
  Function& function_;
  std::map<std::size_t, std::vector<Op>> ops_;  // by body index
};

// Returns, by Value::id, whether the value is the result of an op that writes memory of its own.
std::vector<bool> find_computed(const Function& function) {
  std::vector<bool> computed(function.types.size());
  for (const Op& op : function.body) {
    for (Value result : op.results)
      computed[static_cast<std::size_t>(result.id)] = !is_view(op.code) && !is_leaf(op.code);
  }
  return computed;
}

// Returns, by Value::id, how many operands of concats the value is.
std::vector<int> count_concats(const Function& function) {
  std::vector<int> concats(function.types.size());
  for (const Op& op : function.body) {
    if (op.code != Opcode::concat) continue;
    for (Value operand : op.operands) ++concats[static_cast<std::size_t>(operand.id)];
  }
  return concats;
}

void copy_concat_operands(Module& module, Function& function, std::vector<bool>& copy) {
  const std::vector<bool> computed = find_computed(function);
  std::vector<int> concats = count_concats(function);
  Insertions insertions(module, function);
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    if (function.body[i].code != Opcode::concat) continue;
    for (std::size_t k = 0; k < function.body[i].operands.size(); ++k) {
      const Value operand = function.body[i].operands[k];
      const auto id = static_cast<std::size_t>(operand.id);
      // Two operands of concats, even of the same concat, cannot be in the same memory.
      if (concats[id] == 1 && computed[id]) continue;
      const std::string location = function.body[i].location;
      const Value copied = insertions.copy(i, operand, location);
      function.body[i].operands[k] = copied;
      --concats[id];
    }
  }
  insertions.place(copy);
}

void copy_results(Module& module, Function& function, std::vector<bool>& copy) {
  const std::vector<std::int32_t> definitions = function.definitions();
  const std::vector<bool> computed = find_computed(function);
  const std::vector<int> concats = count_concats(function);
  // By body index: where to insert a copy of a value computed before that index. It is at the end of the
  // body, but before the next update, since the value may be a view of that state.
  std::vector<std::size_t> places(function.body.size() + 1, function.body.size());
  for (std::size_t i = function.body.size(); i-- > 0;)
    places[i] = function.body[i].code == Opcode::update ? i : places[i + 1];
  Insertions insertions(module, function);
  std::set<Value> seen;
  for (auto& result : function.results) {
    const auto id = static_cast<std::size_t>(result.value.id);
    if (concats[id] == 0 && computed[id] && seen.insert(result.value).second) continue;
    // An argument is defined before the first op.
    const std::size_t place = places[static_cast<std::size_t>(definitions[id] + 1)];
    result.value = insertions.copy(place, result.value, "result." + result.name);
  }
  insertions.place(copy);
}

// If an update sets a state to another state unchanged, and this function updates that one too, the update
// reads a copy from before all updates. Otherwise two updates could wait for each other.
void copy_updated_states(Module& module, Function& function, std::vector<bool>& copy) {
  const std::vector<std::int32_t> definitions = function.definitions();
  std::set<std::string, std::less<>> updated;
  std::size_t first = function.body.size();
  for (std::size_t i = function.body.size(); i-- > 0;) {
    if (function.body[i].code != Opcode::update) continue;
    updated.insert(function.body[i].attributes.get_string("name"));
    first = i;
  }
  const auto state_of = [&](Value value) -> std::string_view {
    std::int32_t at = definitions[static_cast<std::size_t>(value.id)];
    while (at >= 0 && is_view(function.body[static_cast<std::size_t>(at)].code)) {
      const Value operand = function.body[static_cast<std::size_t>(at)].operands[0];
      at = definitions[static_cast<std::size_t>(operand.id)];
    }
    if (at < 0 || function.body[static_cast<std::size_t>(at)].code != Opcode::param) return {};
    return function.body[static_cast<std::size_t>(at)].attributes.get_string("name");
  };
  Insertions insertions(module, function);
  for (std::size_t i = first; i < function.body.size(); ++i) {
    if (function.body[i].code != Opcode::update) continue;
    const Value value = function.body[i].operands[0];
    const std::string_view state = state_of(value);
    if (state == function.body[i].attributes.get_string("name") || !updated.contains(state)) continue;
    const auto defined = static_cast<std::size_t>(definitions[static_cast<std::size_t>(value.id)]);
    const std::string location = function.body[i].location;
    const Value copied = insertions.copy(std::max(first, defined + 1), value, location);
    function.body[i].operands[0] = copied;
  }
  insertions.place(copy);
}

bool widens(const Function& function, const Op& op) {
  if (op.code != Opcode::cast || function.type(op.results[0]).dtype != ir::DType::f32) return false;
  const ir::DType from = function.type(op.operands[0]).dtype;
  return from == ir::DType::bf16 || from == ir::DType::f16;
}

// Gives each reader of a 16-bit value's f32 a cast of its own. Kernels then read the 16-bit value, and its
// f32 is never stored.
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

void prepare(Prepared& prepared, const FuseOptions& options) {
  Module& m = prepared.module;
  Function& f = m.functions.front();
  const auto does = [&](std::string_view step) { return options.does(step); };
  // Without fusion, the pairs of places would be stored in memory.
  if (does(kLowerIndexed) && does(kFuse)) lower_indexed(m, f, options.grain);
  if (does(kUnifyViews)) unify_views_of_calls(f);
  drop_dead(f);
  if (does(kWideningCasts)) copy_widening_casts(f);
  if (does(kLowerArgmax)) lower_argmax(m, f);
  if (does(kMergePads)) merge_pads(m, f);
  prepared.copy.assign(f.body.size(), false);
  copy_concat_operands(m, f, prepared.copy);
  copy_updated_states(m, f, prepared.copy);
  copy_results(m, f, prepared.copy);
}

}  // namespace rewire::codegen
