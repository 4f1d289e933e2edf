// The frame of the local passes: walks a function's body once, in order, and rebuilds it. What a pass decides
// for an op sees operands that are already rewritten, so that a chain collapses in one walk.
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

  /// What stands for the op's results; std::nullopt keeps the op.
  using Visit = std::function<std::optional<std::vector<Value>>(const Op&)>;

  /// Whether any op was replaced.
  bool run(const Visit& visit);

  /// Emits before the op being visited, under its location.
  Builder& builder();
  const Function& function() const { return function_; }

  /// The op of the rebuilt part that defines `value`; nullptr for an argument. Emitting invalidates it.
  const Op* definition(Value value) const;

 private:
  void note_new_definitions();

  Function& function_;
  Builder builder_;
  std::vector<Op> old_body_;
  const Op* visited_ = nullptr;            // until the builder has its location
  std::vector<std::int32_t> definitions_;  // by Value::id, index in the rebuilt body
  std::size_t noted_ = 0;                  // ops of the rebuilt body that definitions_ knows
};

}  // namespace rewire::ir
