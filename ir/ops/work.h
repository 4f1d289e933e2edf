// The arithmetic of an op, beside its memory traffic. It decides between recomputing and storing, and
// appears in a dump's calls and as a model's cost in papers. Each op's row has the numbers.
#pragma once

#include <cstdint>

#include "ir/module.h"
#include "ir/ops/op_info.h"

namespace rewire::ir {

Work op_work(const Function& function, const Op& op);

/// Returns floating-point operations per element of the first result, roughly, as a vectorised kernel does
/// them: 0 for ops that only move elements, 1 for add, 20 for exp.
std::int64_t flops_per_element(const Function& function, const Op& op);

/// Returns a function's multiply-adds as papers count them ("FLOPs", GMACs): only matrix products, the two
/// products of attention, and circulant products by transforms.
double multiply_adds(const Function& function);

}  // namespace rewire::ir
