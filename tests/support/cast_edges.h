// Casts from each dtype to each other at the edges of both: zeros, halves, the ends of every integer's range
// and the numbers beside them, overflows, infinities, NaN. Each value is exact in its dtype, and an i64's is
// a double.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"

namespace rewire::testing {

struct CastEdges {
  ir::DType from, to;
  ir::Module module;  // main(x) -> (y)
  ir::Tensor input;
};

std::vector<CastEdges> cast_edges();

/// Returns the integer or truth value that a cast gives, written without the evaluator's help.
std::int64_t integer_cast_of(double value, ir::DType to);

}  // namespace rewire::testing
