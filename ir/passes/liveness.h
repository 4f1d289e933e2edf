// When values live and what they weigh, as the passes see it before codegen: the basis of recompute.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/module.h"

namespace rewire::ir {

class Liveness {
 public:
  explicit Liveness(const Function& function);

  /// A value with memory of its own, or the one that this value is a view of.
  Value storage(Value value) const { return storage_[index(value)]; }
  /// Bytes that a value holds by itself: none for arguments, parameters, constants and views.
  std::int64_t bytes(Value value) const { return bytes_[index(value)]; }
  /// Body index of the op that defines the value, -1 for an argument.
  std::int32_t definition(Value value) const { return definitions_[index(value)]; }
  /// Body index of the last op that reads the value or a view of it; the body's size for a function's result.
  std::int32_t last_use(Value value) const { return last_uses_[index(storage(value))]; }

  /// The op during which most bytes live, and how many; {-1, 0} if none do.
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

/// Whether the op only looks at its operand's memory in another way.
bool is_view(Opcode code);

}  // namespace rewire::ir
