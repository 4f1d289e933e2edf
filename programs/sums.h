// Sums and means over all elements, and the negative log-probability of each class.
#pragma once

#include "ir/builder.h"

namespace rewire::programs {

/// Returns the sum of all elements, a scalar.
ir::Value sum_all(ir::Builder& builder, ir::Value x);

/// Returns the mean of all elements, a scalar.
ir::Value mean_all(ir::Builder& builder, ir::Value x);

/// Returns -log softmax along the last axis, log sum_k exp x_k - x, in x's shape.
ir::Value surprisals(ir::Builder& builder, ir::Value x);

/// Sums over the rows whose label is a class, each times its weight.
/// Returns whether each label is one of `classes`, i1 of the labels' shape. Others, such as -1 and -100, do not count.
ir::Value is_class(ir::Builder& builder, ir::Value label, std::int64_t classes);

struct CountedSums {
  ir::Value loss, correct, count;  // cross-entropy; labels with the largest logit; weights
};

/// Returns them for logits [N, classes] and integer labels [N]; other labels do not count. `weight` [N], if
/// valid, weighs the rows.
CountedSums counted_cross_entropy(ir::Builder& builder, ir::Value logits, ir::Value label, ir::Value weight);

}  // namespace rewire::programs
