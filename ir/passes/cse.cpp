#include "ir/passes/cse.h"

#include <algorithm>
#include <bit>
#include <string>
#include <type_traits>
#include <unordered_map>

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

/// A byte string that is equal for ops that compute the same, and for no others: every part is written with
/// its length.
class Key {
 public:
  Key(const Function& function, const Op& op) {
    append(static_cast<std::uint64_t>(op.code));
    std::vector<Value> operands = op.operands;
    if (is_commutative(op.code)) std::sort(operands.begin(), operands.end());
    append(operands.size());
    for (Value operand : operands) append(static_cast<std::uint64_t>(operand.id));
    for (const auto& [name, value] : op.attributes) {
      append_text(name);
      append(value.index());
      std::visit([&](const auto& content) { append_content(content); }, value);
    }
    for (Value result : op.results) {
      const TensorType& type = function.type(result);
      append(static_cast<std::uint64_t>(type.dtype));
      append_content(type.shape);
    }
  }
  std::string take() { return std::move(bytes_); }

 private:
  void append(std::uint64_t word) { bytes_.append(reinterpret_cast<const char*>(&word), sizeof word); }
  void append_text(std::string_view text) {
    append(text.size());
    bytes_.append(text);
  }
  template <class T>
  void append_content(const T& content) {
    if constexpr (std::is_same_v<T, std::string>) {
      append_text(content);
    } else if constexpr (std::is_same_v<T, double>) {
      append(std::bit_cast<std::uint64_t>(content));
    } else if constexpr (std::is_arithmetic_v<T>) {
      append(static_cast<std::uint64_t>(content));
    } else {
      append(content.size());
      for (auto item : content) append_content(item);
    }
  }

  std::string bytes_;
};

}  // namespace

void cse(Module& module, PassContext& /*context*/) {
  for (Function& function : module.functions) {
    BodyRewriter rewriter(module, function);
    std::unordered_map<std::string, std::vector<Value>> first;
    rewriter.run([&](const Op& op) -> std::optional<std::vector<Value>> {
      if (op.results.empty() || op_info(op.code).op_class == OpClass::comm) return std::nullopt;
      const auto [found, is_new] = first.emplace(Key(function, op).take(), op.results);
      if (is_new) return std::nullopt;
      return found->second;
    });
  }
}

}  // namespace rewire::ir
