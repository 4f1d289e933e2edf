// Sums and means over all elements, and the surprise of a class, as objectives and programs need them.
#pragma once

#include "ir/builder.h"

namespace rewire::programs {

/// The sum of all elements, a scalar.
ir::Value sum_all(ir::Builder& builder, ir::Value x);

/// Their mean, a scalar.
ir::Value mean_all(ir::Builder& builder, ir::Value x);

/// -log softmax along the last axis: log sum_k exp x_k - x, of x's shape.
ir::Value surprisals(ir::Builder& builder, ir::Value x);

}  // namespace rewire::programs
