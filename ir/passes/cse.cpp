#include "ir/passes/cse.h"

#include <algorithm>
#include <bit>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "ir/passes/rewrite.h"

namespace rewire::ir {
namespace {

bool is_commutative(Opcode code) {
  switch (code) {
    case Opcode::add:
    case Opcode::mul:
    case Opcode::maximum:
    case Opcode::minimum:
    case Opcode::logical_and:
    case Opcode::logical_or:
      return true;
    default:
      return false;
  }
}

/// Writes byte strings that are equal for ops that compute the same, and for no others. Every part is
/// written with its length. Attributes are complete and sorted (V4), so the opcode determines which value
/// belongs to which attribute.
class KeyWriter {
 public:
  explicit KeyWriter(const Function& function) : function_(function) {}

  /// Returns the op's key, which is valid until the next call.
  const std::string& key(const Op& op) {
    bytes_.clear();
    append(static_cast<std::uint64_t>(op.code));
    append(op.operands.size());
    if (is_commutative(op.code)) {
      append_operand(std::min(op.operands[0], op.operands[1]));
      append_operand(std::max(op.operands[0], op.operands[1]));
    } else {
      for (Value operand : op.operands) append_operand(operand);
    }
    for (const auto& [name, value] : op.attributes) {
      std::visit([&](const auto& content) { append_content(content); }, value);
    }
    for (Value result : op.results) {
      const TensorType& type = function_.type(result);
      append(static_cast<std::uint64_t>(type.dtype));
      append_content(type.shape);
    }
    return bytes_;
  }

 private:
  void append_operand(Value operand) { append(static_cast<std::uint64_t>(operand.id)); }
  void append(std::uint64_t word) { bytes_.append(reinterpret_cast<const char*>(&word), sizeof word); }
  template <class T>
  void append_content(const T& content) {
    if constexpr (std::is_same_v<T, std::string>) {
      append(content.size());
      bytes_.append(content);
    } else if constexpr (std::is_same_v<T, double>) {
      append(std::bit_cast<std::uint64_t>(content));
    } else if constexpr (std::is_arithmetic_v<T>) {
      append(static_cast<std::uint64_t>(content));
    } else {
      append(content.size());
      for (auto item : content) append_content(item);
    }
  }

  const Function& function_;
  std::string bytes_;
};

}  // namespace

void cse(Module& module, PassContext& /*context*/) {
  for (Function& function : module.functions) {
    BodyRewriter rewriter(module, function);
    KeyWriter writer(function);
    std::unordered_map<std::string, std::vector<Value>> first;
    first.reserve(function.body.size());
    rewriter.run([&](const Op& op) -> std::optional<std::vector<Value>> {
      if (op.results.empty() || op_info(op.code).op_class == OpClass::comm) return std::nullopt;
      const std::string& key = writer.key(op);
      if (const auto found = first.find(key); found != first.end()) return found->second;
      first.emplace(key, op.results);
      return std::nullopt;
    });
  }
}

}  // namespace rewire::ir
