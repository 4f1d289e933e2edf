#include "ir/passes/rewrite.h"

#include <utility>

#include "ir/error.h"

namespace rewire::ir {
namespace {

/// The replacements of values, by Value::id.
class Renaming {
 public:
  void set(Value from, Value to) {
    const auto index = static_cast<std::size_t>(from.id);
    if (index >= targets_.size()) targets_.resize(index + 1);
    targets_[index] = to;
  }
  /// A replacement is final when it is made, so one lookup is enough.
  Value operator()(Value value) const {
    const auto index = static_cast<std::size_t>(value.id);
    return index < targets_.size() && targets_[index] ? targets_[index] : value;
  }

 private:
  std::vector<Value> targets_;
};

}  // namespace

bool BodyRewriter::run(const Visit& visit) {
  old_body_.clear();
  old_body_.swap(function_.body);
  function_.body.reserve(old_body_.size());
  definitions_.assign(function_.types.size(), -1);
  noted_ = 0;
  builder_.set_position(0);

  Renaming renamed;
  bool changed = false;
  for (Op& op : old_body_) {
    for (Value& operand : op.operands) operand = renamed(operand);
    visited_ = &op;
    const std::optional<std::vector<Value>> replacement = visit(op);
    if (replacement) {
      changed = true;
      if (replacement->size() != op.results.size()) {
        internal_error("a rewrite of {} returned {} values for {} results", opcode_name(op.code),
                       replacement->size(), op.results.size());
      }
      for (std::size_t i = 0; i < op.results.size(); ++i) renamed.set(op.results[i], (*replacement)[i]);
    } else {
      function_.body.push_back(std::move(op));
      builder_.set_position(function_.body.size());
    }
    note_new_definitions();
  }
  visited_ = nullptr;
  for (Argument& result : function_.results) result.value = renamed(result.value);
  return changed;
}

Builder& BodyRewriter::builder() {
  if (visited_ != nullptr) builder_.set_location(visited_->location);
  visited_ = nullptr;
  return builder_;
}

const Op* BodyRewriter::definition(Value value) const {
  const auto index = static_cast<std::size_t>(value.id);
  if (index >= definitions_.size() || definitions_[index] < 0) return nullptr;
  return &function_.body[static_cast<std::size_t>(definitions_[index])];
}

void BodyRewriter::note_new_definitions() {
  definitions_.resize(function_.types.size(), -1);
  for (; noted_ < function_.body.size(); ++noted_) {
    for (Value result : function_.body[noted_].results) {
      definitions_[static_cast<std::size_t>(result.id)] = static_cast<std::int32_t>(noted_);
    }
  }
}

}  // namespace rewire::ir
