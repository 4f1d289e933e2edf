#include "ir/passes/channels_last.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "ir/opcodes.h"
#include "ir/ops/axes.h"
#include "ir/ops/convolution.h"
#include "ir/ops/op_info.h"
#include "ir/passes/rewrite.h"

namespace rewire::ir {
namespace {

constexpr int kMapRank = 4;
// Axis i of the new order is axis kFrom[i] of the old one. Axis i of the old order becomes axis kTo[i].
constexpr std::array<std::int64_t, kMapRank> kFrom = {0, 2, 3, 1}, kTo = {0, 3, 1, 2};

template <class List>
List moved(const List& list) {
  List result(list.size());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = list[static_cast<std::size_t>(kFrom[i])];
  return result;
}

class Layout {
 public:
  Layout(Module& module, Function& function) : rewriter_(module, function), function_(function) {}

  void run() {
    rewriter_.run([&](const Op& op) -> std::optional<std::vector<Value>> {
      if (is_convolution(op.code)) {
        if (is_channels_last(op.attributes)) return std::nullopt;
        return std::vector<Value>{convolution(op)};
      }
      if (op.code == Opcode::transpose && std::ranges::equal(op.attributes.get_ints("permutation"), kTo)) {
        last_.emplace(op.results[0].id, op.operands[0]);
        return std::nullopt;
      }
      if (!has_moved_operand(op) || !can_move(op)) return std::nullopt;
      return std::vector<Value>{move(op)};
    });
  }

 private:
  bool is_map(Value value) const { return function_.type(value).rank() == kMapRank; }

  bool has_moved_operand(const Op& op) const {
    return std::ranges::any_of(op.operands, [&](Value operand) { return last_.contains(operand.id); });
  }

  bool can_move(const Op& op) const {
    if (op.results.size() != 1 || !is_map(op.results[0]) ||
        !std::ranges::all_of(op.operands, [&](Value v) { return is_map(v); }))
      return false;
    if (op_info(op.code).op_class == OpClass::pointwise) return true;
    switch (op.code) {
      case Opcode::sum:
      case Opcode::max:
      case Opcode::broadcast:
      case Opcode::slice:
      case Opcode::pad:
      case Opcode::concat:
        return true;
      default:
        return false;
    }
  }

  /// Returns the op's attributes, with those that refer to axes changed to the new order.
  static Attributes moved_attributes(const Op& op) {
    Attributes attributes = op.attributes;
    const auto move_list = [&](const char* name) {
      const Ints& list = op.attributes.get_ints(name);
      if (!list.empty()) attributes.set(name, moved(list));
    };
    const auto new_axis = [](std::int64_t axis) {
      return kTo[static_cast<std::size_t>(normal_axis(axis, kMapRank))];
    };
    switch (op.code) {
      case Opcode::sum:
      case Opcode::max: {
        Ints axes;
        for (const int axis : normal_axes(op.attributes.get_ints("axes"), kMapRank))
          axes.push_back(new_axis(axis));
        std::ranges::sort(axes);
        attributes.set("axes", std::move(axes));
        break;
      }
      case Opcode::slice:
        for (const char* name : {"starts", "limits", "strides"}) move_list(name);
        break;
      case Opcode::pad:
        for (const char* name : {"low", "high"}) move_list(name);
        break;
      case Opcode::concat:
        attributes.set("axis", new_axis(op.attributes.get_int("axis")));
        break;
      default:
        break;
    }
    return attributes;
  }

  Value move(const Op& op) {
    std::vector<Value> operands;
    for (Value operand : op.operands) operands.push_back(last(operand));
    std::optional<TensorType> requested;
    if (op_info(op.code).typed) {
      requested = function_.type(op.results[0]);
      requested->shape = moved(requested->shape);
    }
    return first(rewriter_.builder().emit(op.code, operands, moved_attributes(op), std::move(requested)));
  }

  Value convolution(const Op& op) {
    Attributes attributes = op.attributes;
    attributes.set("layout", std::string("nhwc"));
    const bool weight_grad = op.code == Opcode::conv2d_weight_grad;
    const Value second = weight_grad ? last(op.operands[1]) : op.operands[1];
    const Value result =
        rewriter_.builder().emit(op.code, {last(op.operands[0]), second}, std::move(attributes));
    return weight_grad ? result : first(result);
  }

  /// Returns the map in the new order.
  Value last(Value map) {
    const auto found = last_.find(map.id);
    if (found != last_.end()) return found->second;
    const Value result = rewriter_.builder().transpose(map, Ints(kFrom.begin(), kFrom.end()));
    last_.emplace(map.id, result);
    return result;
  }

  /// Returns a map of the new order in the old order.
  Value first(Value map) {
    const Value result = rewriter_.builder().transpose(map, Ints(kTo.begin(), kTo.end()));
    last_.emplace(result.id, map);
    return result;
  }

  BodyRewriter rewriter_;
  Function& function_;
  std::unordered_map<std::int32_t, Value> last_;  // by Value::id of a map in the old order
};

}  // namespace

void channels_last(Module& module, PassContext& /*context*/) {
  for (Function& function : module.functions) {
    if (std::ranges::any_of(function.body, [](const Op& op) { return is_convolution(op.code); }))
      Layout(module, function).run();
  }
}

}  // namespace rewire::ir
