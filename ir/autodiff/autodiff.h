// Reverse-mode differentiation over the IR, from the VJP column of the op table.
#pragma once

#include <span>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"

namespace rewire::ir {

/// Appends to builder.function() (at its end) the ops that compute d loss / d w for each w of `wrt`, and
/// returns those values in the same order. `loss` is a float scalar of the function. Each gradient has its
/// w's type; where nothing flows it is a zero constant. Only ops between `wrt` and `loss` are differentiated.
/// Cotangents that meet are added in the order of the forward body reversed, so the result is deterministic.
/// InternalError if gradient would have to flow through an op that has no VJP but differentiable meaning
/// (attention_grad: second order).
std::vector<Value> differentiate(Builder& builder, Value loss, std::span<const Value> wrt);

}  // namespace rewire::ir
