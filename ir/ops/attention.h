// What a query of an attention op sees; ops.def has the op's operands and attributes.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/builder.h"

namespace rewire::ir {

/// The optional parts of attention or attention_grad, and the numbers of their operands (-1: absent).
struct AttentionForm {
  bool causal = false;      // query i sees keys up to i
  std::int64_t window = 0;  // of these, only the last `window`; 0: all
  int bias = -1;            // is added to the scaled logits
  int documents = -1;       // a query sees only keys with its own number

  bool masked() const { return causal || documents >= 0; }
  /// Returns whether query i may see key j, documents aside.
  bool sees(std::int64_t i, std::int64_t j) const {
    return !causal || (j <= i && (window == 0 || i - j < window));
  }
};

/// Returns the parts that the attributes name. `first`: the number of operands before the optional ones.
AttentionForm attention_form(const Attributes& attributes, int first);
AttentionForm attention_form(const Op& op);

/// Emits the logits [batch, heads, queries, keys] of an attention op, in f32 at least: scale q k^T + bias, or
/// -1e30 for a key that the query does not see.
Value emit_attention_logits(Builder& builder, const Op& op);
/// Emits an attention op as products and a softmax, which hold the map. Returns its two results.
std::vector<Value> spell_out_attention(Builder& builder, const Op& op);

}  // namespace rewire::ir
