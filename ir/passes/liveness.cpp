#include "ir/passes/liveness.h"

#include <algorithm>

#include "ir/opcodes.h"

namespace rewire::ir {
namespace {

/// Returns whether the result needs no memory: it is a view,
/// is made in place at each use, or the caller keeps it.
bool weighs_nothing(Opcode code) {
  switch (code) {
    case Opcode::param:
    case Opcode::constant:
    case Opcode::iota:
    case Opcode::is_training:
      return true;
    default:
      return is_view(code);
  }
}

}  // namespace

bool is_view(Opcode code) {
  return code == Opcode::reshape || code == Opcode::broadcast || code == Opcode::slice;
}

Liveness::Liveness(const Function& function)
    : ops_(function.body.size()),
      storage_(function.types.size()),
      bytes_(function.types.size(), 0),
      definitions_(function.definitions()),
      last_uses_(function.types.size(), -1) {
  for (std::size_t i = 0; i < storage_.size(); ++i) storage_[i] = Value{static_cast<std::int32_t>(i)};
  for (std::size_t i = 0; i < ops_; ++i) {
    const Op& op = function.body[i];
    for (Value operand : op.operands) last_uses_[index(storage(operand))] = static_cast<std::int32_t>(i);
    for (Value result : op.results) {
      if (is_view(op.code)) storage_[index(result)] = storage(op.operands[0]);
      if (!weighs_nothing(op.code)) bytes_[index(result)] = function.type(result).bytes();
    }
  }
  for (const Argument& result : function.results) {
    last_uses_[index(storage(result.value))] = static_cast<std::int32_t>(ops_);
  }
}

Liveness::Peak Liveness::peak() const {
  std::vector<std::int64_t> change(ops_ + 1, 0);
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    if (bytes_[i] == 0 || definitions_[i] < 0) continue;
    change[static_cast<std::size_t>(definitions_[i])] += bytes_[i];
    const std::int32_t last = std::max(last_uses_[i], definitions_[i]);
    if (static_cast<std::size_t>(last) < ops_) change[static_cast<std::size_t>(last) + 1] -= bytes_[i];
  }
  Peak peak;
  std::int64_t live = 0;
  for (std::size_t i = 0; i < ops_; ++i) {
    live += change[i];
    if (live > peak.bytes) peak = {static_cast<std::int32_t>(i), live};
  }
  return peak;
}

}  // namespace rewire::ir
