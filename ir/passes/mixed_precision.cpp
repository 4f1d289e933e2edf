// Walks once over the body. A value that has become bf16 stays
// bf16 through shape ops. All other ops read its f32 copy.
#include "ir/passes/mixed_precision.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/convolution.h"
#include "ir/ops/op_info.h"
#include "ir/passes/rewrite.h"
#include "ir/side_results.h"

namespace rewire::ir {
namespace {

constexpr std::string_view kTf32 = "tf32";

class Narrowing {
 public:
  Narrowing(Module& module, Function& function, const MixedPrecision& options)
      : function_(function), rewriter_(module, function) {
    if (options.stream == DType::bf16) note_stream();
    note_network();
  }

  void run() {
    rewriter_.run([&](const Op& op) { return visit(op); });
    rewriter_.builder().set_location("");
    for (Argument& result : function_.results) result.value = wide(result.value);
  }

 private:
  using Replacement = std::optional<std::vector<Value>>;

  /// Collects the values that joins read and write as the stream, and those of a stream's type that are
  /// read both before and after a join: what a strategy hands on beside the stream, such as further lanes.
  void note_stream() {
    std::vector<TensorType> types;
    std::vector<std::size_t> defined(function_.types.size()), last_read(function_.types.size());
    std::vector<std::size_t> joins;  // body indices
    for (std::size_t i = 0; i < function_.body.size(); ++i) {
      const Op& op = function_.body[i];
      for (const Value operand : op.operands) last_read[static_cast<std::size_t>(operand.id)] = i;
      for (const Value result : op.results) defined[static_cast<std::size_t>(result.id)] = i;
      if (op.code != Opcode::residual) continue;
      joins.push_back(i);
      types.push_back(type(op.operands[0]));
      stream_.insert({op.operands[0].id, op.results[0].id});
    }
    for (std::size_t id = 0; id < function_.types.size(); ++id) {
      if (std::ranges::find(types, function_.types[id]) == types.end()) continue;
      const auto next = std::ranges::upper_bound(joins, defined[id]);
      if (next != joins.end() && last_read[id] > *next) stream_.insert(static_cast<std::int32_t>(id));
    }
  }

  /// Marks what the results that are computed in every pass depend on. A
  /// result under kAfterStepPrefix is a weight's value after an optimizer
  /// step. It is computed from the optimizer's value, in the same precision.
  void note_network() {
    network_.resize(function_.types.size());
    const auto mark = [&](Value value) { network_[static_cast<std::size_t>(value.id)] = true; };
    for (const Argument& result : function_.results) {
      if (!result.name.starts_with(kAfterStepPrefix)) mark(result.value);
    }
    for (auto op = function_.body.rbegin(); op != function_.body.rend(); ++op) {
      if (op->results.empty() || in_network(*op)) std::ranges::for_each(op->operands, mark);
    }
  }
  bool in_network(const Op& op) const {
    return std::ranges::any_of(op.results,
                               [&](Value v) { return bool(network_[static_cast<std::size_t>(v.id)]); });
  }

  Replacement visit(const Op& op) {
    if (is_contraction(op) && in_network(op)) return contraction(op);
    if (is_shape(op.code) && std::ranges::all_of(op.operands, [&](Value x) { return is_narrow(x); })) {
      return std::vector<Value>{emit_narrow(op)};
    }
    const bool round = is_biased_product(op) || (op.results.size() == 1 && is_stream(op.results[0]));
    const bool widen = std::ranges::any_of(op.operands, [&](Value x) { return is_narrow(x); });
    if (!round && !widen) return std::nullopt;
    std::vector<Value> operands;
    for (Value operand : op.operands) operands.push_back(wide(operand));
    std::vector<Value> results = emit(op, operands);
    if (round) results[0] = narrowed(results[0]);
    return results;
  }

  /// Returns what the op multiplies. Attention's bias and documents come after that, and stay as they are.
  static std::span<const Value> factors(const Op& op) {
    return std::span(op.operands).first(op.code == Opcode::attention ? 3 : op.operands.size());
  }

  /// Returns whether the op is a product whose operands are f32, or were f32 before this pass.
  bool is_contraction(const Op& op) const {
    return (op.code == Opcode::matmul || op.code == Opcode::circulant_matmul ||
            op.code == Opcode::attention || is_convolution(op.code)) &&
           std::ranges::all_of(factors(op),
                               [&](Value x) { return is_narrow(x) || type(x).dtype == DType::f32; });
  }

  Replacement contraction(const Op& op) {
    std::vector<Value> operands;
    for (Value operand : factors(op)) operands.push_back(narrow(operand));
    for (std::size_t i = operands.size(); i < op.operands.size(); ++i)
      operands.push_back(wide(op.operands[i]));
    const std::vector<Value> results = emit(op, operands);
    narrow_.insert(results[0].id);  // only results[0]: attention's log-sum-exp is f32
    return results;
  }

  static bool is_shape(Opcode code) {
    return code == Opcode::reshape || code == Opcode::transpose || code == Opcode::slice ||
           code == Opcode::broadcast || code == Opcode::concat || code == Opcode::pad;
  }

  Value emit_narrow(const Op& op) {
    std::optional<TensorType> requested;
    if (op_info(op.code).typed) requested = {DType::bf16, type(op.results[0]).shape};
    const Value result = rewriter_.builder().emit(op.code, op.operands, op.attributes, requested);
    narrow_.insert(result.id);
    return result;
  }

  /// Returns whether the op adds a bias to each row of a product that has become bf16.
  bool is_biased_product(const Op& op) const {
    if (op.code != Opcode::add) return false;
    for (const std::size_t i : {0, 1}) {
      const Op* product = rewriter_.definition(op.operands[i]);
      const Op* bias = rewriter_.definition(op.operands[1 - i]);
      if (is_narrow(op.operands[i]) && product != nullptr && bias != nullptr &&
          (product->code == Opcode::matmul || is_convolution(product->code)) &&
          bias->code == Opcode::broadcast)
        return true;
    }
    return false;
  }

  bool is_stream(Value old) const { return stream_.contains(old.id) && type(old).dtype == DType::f32; }

  std::vector<Value> emit(const Op& op, const std::vector<Value>& operands) {
    std::optional<TensorType> requested;
    if (op_info(op.code).typed) requested = type(op.results[0]);
    return rewriter_.builder().emit_all(op.code, operands, op.attributes, requested);
  }

  Value narrowed(Value x) {
    const Value result = narrow(x);
    narrow_.insert(result.id);
    return result;
  }
  Value narrow(Value x) { return is_narrow(x) ? x : copy(x, DType::bf16, narrow_copy_); }
  Value wide(Value x) { return is_narrow(x) ? copy(x, DType::f32, wide_) : x; }

  Value copy(Value x, DType dtype, std::unordered_map<std::int32_t, Value>& copies) {
    const auto found = copies.find(x.id);
    if (found != copies.end()) return found->second;
    const Value result = rewriter_.builder().cast(x, dtype);
    copies.emplace(x.id, result);
    return result;
  }

  bool is_narrow(Value x) const { return narrow_.contains(x.id); }
  const TensorType& type(Value x) const { return function_.type(x); }

  Function& function_;
  BodyRewriter rewriter_;
  std::unordered_set<std::int32_t> stream_;              // ids of the old body
  std::vector<bool> network_;                            // by ids of the old body
  std::unordered_set<std::int32_t> narrow_;              // values that this pass made bf16
  std::unordered_map<std::int32_t, Value> narrow_copy_;  // the bf16 copy of an f32 value
  std::unordered_map<std::int32_t, Value> wide_;         // the f32 copy of a narrow value
};

}  // namespace

bool allows_tf32(const Module& module) {
  const Attribute* attribute = module.attributes.find(kTf32);
  if (attribute == nullptr) return false;
  const bool* allowed = std::get_if<bool>(attribute);
  if (allowed == nullptr) user_error("module @{}: attribute '{}' must be true or false", module.name, kTf32);
  return *allowed;
}

void allow_tf32(Module& module, bool allowed) {
  if (allowed) {
    module.attributes.set(kTf32, true);
  } else {
    module.attributes.erase(kTf32);
  }
}

void mixed_precision(Module& module, Function& function, const MixedPrecision& options) {
  Narrowing(module, function, options).run();
}

}  // namespace rewire::ir
