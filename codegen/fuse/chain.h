// Finds chains of pointwise ops between two values, and recognises by their values what they compute: the
// passes write GELU and its gradient in one of many forms, merged with neighbouring ops.
//
// In: a value. Out: the ops that compute it from its sources, all of one shape. Each op is one of neg, exp,
// tanh, sigmoid, add, sub, mul, div or a cast between floats, and constants have one value for all elements.
// Such a chain is an analytic function of its sources, without a branch, a minimum or a rounding between
// sampled points. So it counts as GELU if it agrees with GELU to 1e-6 at many points. Casts are ignored.
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

/// Returns the longest chain to `value` that begins at values in `stops` (Value::id), or where another op
/// begins. `definitions`: the function's. nullopt: there is none, or it has more than 48 ops or another
/// shape inside.
std::optional<Chain> chain_to(const ir::Function& function, const std::vector<std::int32_t>& definitions,
                              ir::Value value, const std::set<std::int32_t>& stops);

/// Returns whether a chain from x alone is x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2: at points from
/// -1e3 to 1e3, within 1e-6 times 1 + |x|. That form and the exact one (erf) differ by up to 4.7e-4.
bool is_gelu_by_tanh(const ir::Function& function, const std::vector<std::int32_t>& definitions,
                     const Chain& chain, ir::Value value);
/// Returns whether a chain from `x` and `g` is g times the derivative of that form, by the same test.
bool is_gelu_gradient_by_tanh(const ir::Function& function, const std::vector<std::int32_t>& definitions,
                              const Chain& chain, ir::Value value, ir::Value x, ir::Value g);

}  // namespace rewire::codegen
