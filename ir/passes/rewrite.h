// The frame of local passes: walks a function's body once, in order, and rebuilds it. A pass sees operands
// that are already rewritten, so that a chain collapses in one walk.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"

namespace rewire::ir {

class BodyRewriter {
 public:
  BodyRewriter(Module& module, Function& function) : function_(function), builder_(module, function) {}

  /// Returns the values that replace the op's results; std::nullopt keeps the op.
  using Visit = std::function<std::optional<std::vector<Value>>(const Op&)>;

  /// Rewrites the body. Returns whether any op was replaced.
  bool run(const Visit& visit);

  /// Returns the builder, which emits before the visited op, under its location.
  Builder& builder();
  const Function& function() const { return function_; }

  /// Returns the op of the rebuilt part that defines `value`; nullptr for an argument. Emitting invalidates
  /// it.
  const Op* definition(Value value) const;

 private:
  void note_new_definitions();

  Function& function_;
  Builder builder_;
  std::vector<Op> old_body_;
  const Op* visited_ = nullptr;            // set until the builder has its location
  std::vector<std::int32_t> definitions_;  // index in the rebuilt body, by Value::id
  std::size_t noted_ = 0;                  // ops of the rebuilt body that definitions_ covers
};

}  // namespace rewire::ir
