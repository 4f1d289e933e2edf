// Lifetimes and sizes of values, as the passes see them before codegen. Recompute is based on them.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/module.h"

namespace rewire::ir {

class Liveness {
 public:
  explicit Liveness(const Function& function);

  /// Returns the value with memory of its own that this value is, or is a view of.
  Value storage(Value value) const { return storage_[index(value)]; }
  /// Returns the bytes that a value itself occupies: 0 for arguments, parameters, constants and views.
  std::int64_t bytes(Value value) const { return bytes_[index(value)]; }
  /// Returns the body index of the op that defines the value; -1 for an argument.
  std::int32_t definition(Value value) const { return definitions_[index(value)]; }
  /// Returns the body index of the last op that reads the value or a view of it; the body's size for a
  /// result of the function.
  std::int32_t last_use(Value value) const { return last_uses_[index(storage(value))]; }

  /// The op during which most bytes are live, and their number; {-1, 0} if none are.
  struct Peak {
    std::int32_t op = -1;
    std::int64_t bytes = 0;
  };
  Peak peak() const;

 private:
  static std::size_t index(Value value) { return static_cast<std::size_t>(value.id); }

  std::size_t ops_;
  std::vector<Value> storage_;
  std::vector<std::int64_t> bytes_;
  std::vector<std::int32_t> definitions_, last_uses_;
};

/// Returns whether the op is another view of its operand's memory.
bool is_view(Opcode code);

}  // namespace rewire::ir
