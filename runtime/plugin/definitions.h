// Finds the op that defines each value of a function whose body grows at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/module.h"

namespace rewire::runtime {

class Definitions {
 public:
  /// The function must outlive it. Its ops may get other operands, but must not move or be dropped.
  explicit Definitions(const ir::Function& function) : function_(function) {}

  /// Returns the body index of the op that defines the value; -1 for arguments.
  std::int32_t of(ir::Value value) {
    for (; seen_ < function_.body.size(); ++seen_) {
      places_.resize(function_.types.size(), -1);
      for (const ir::Value result : function_.body[seen_].results)
        places_[static_cast<std::size_t>(result.id)] = static_cast<std::int32_t>(seen_);
    }
    places_.resize(function_.types.size(), -1);
    return places_.at(static_cast<std::size_t>(value.id));
  }
  /// Returns that op, nullptr for arguments; valid until the body grows.
  const ir::Op* op(ir::Value value) {
    const std::int32_t at = of(value);
    return at < 0 ? nullptr : &function_.body[static_cast<std::size_t>(at)];
  }

 private:
  const ir::Function& function_;
  std::size_t seen_ = 0;              // ops of the body
  std::vector<std::int32_t> places_;  // by Value::id
};

}  // namespace rewire::runtime
