// Chains of pointwise ops between two values, and what they compute, told by their values: the passes write
// GELU and its gradient in one of many forms, as they join it with what stands beside.
//
// In: a value. Out: the ops that compute it from its sources, all of one shape, where each op is one of
// neg, exp, tanh, sigmoid, add, sub, mul, div or a cast between floats, and constants have one value for all
// elements. Such a chain is an analytic function of its sources, without a branch, a minimum or a rounding
// between sampled points: agreeing with GELU to 1e-6 at many of them is what it is told by. Casts count as
// nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "ir/module.h"

namespace rewire::codegen {

struct Chain {
  std::vector<int> ops;            // body indices, in order
  std::vector<ir::Value> sources;  // each once, of the shape of the chain's value
};

/// The longest chain to `value` that begins at values in `stops` (Value::id), or where another op begins.
/// `definitions`: the function's. nullopt: there is none, or it has more than 48 ops or another shape within.
std::optional<Chain> chain_to(const ir::Function& function, const std::vector<std::int32_t>& definitions,
                              ir::Value value, const std::set<std::int32_t>& stops);

/// Whether a chain from x alone is x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, at points from -1e3 to
/// 1e3 within 1e-6 of 1 + |x|: that form and the exact one (erf) differ by up to 4.7e-4.
bool is_gelu_by_tanh(const ir::Function& function, const std::vector<std::int32_t>& definitions,
                     const Chain& chain, ir::Value value);
/// Whether a chain from `x` and `g` is g times the derivative of that, in the same sense.
bool is_gelu_gradient_by_tanh(const ir::Function& function, const std::vector<std::int32_t>& definitions,
                              const Chain& chain, ir::Value value, ir::Value x, ir::Value g);

}  // namespace rewire::codegen
