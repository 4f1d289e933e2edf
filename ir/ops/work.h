// What an op computes beside the memory it moves: what decides between computing again and storing, what a
// dump prints of a call, and what papers print as a model's cost. How much each op does is its row's to say.
#pragma once

#include <cstdint>

#include "ir/module.h"
#include "ir/ops/op_info.h"

namespace rewire::ir {

Work op_work(const Function& function, const Op& op);

/// Floating-point operations an element of the first result, roughly, as a vectorised kernel does them: 0 for
/// what only moves elements along, 1 for add, 20 for exp.
std::int64_t flops_per_element(const Function& function, const Op& op);

/// Multiply-adds of a function as papers count them ("FLOPs", GMACs): those of matrix products, of the two
/// products of attention, and of circulant products by transforms; nothing else.
double multiply_adds(const Function& function);

}  // namespace rewire::ir
