// Reverse-mode differentiation over the IR, from the VJP column of the op table.
#pragma once

#include <span>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"

namespace rewire::ir {

/// Appends to builder.function() (at its end) the ops that compute d loss / d w for each w of `wrt`, and
/// returns these gradients in the same order. `loss` is a float scalar of the function. Each gradient has
/// its w's type, and is a zero constant if the loss does not depend on w. Only ops between `wrt` and `loss`
/// are differentiated. Cotangents of one value are added in reverse order of the forward body, so the result
/// is deterministic. Throws InternalError if a gradient would have to flow through an op that is
/// differentiable but has no VJP (attention_grad: second order).
std::vector<Value> differentiate(Builder& builder, Value loss, std::span<const Value> wrt);

}  // namespace rewire::ir
