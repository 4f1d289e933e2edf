// The supervised loss and the counts beside it, as IR.
#pragma once

#include "ir/builder.h"

namespace rewire::runtime {

/// Cross-entropy per sample [B] of logits [B, K] against labels i64 [B].
ir::Value sample_loss(ir::Builder& builder, ir::Value logits, ir::Value labels, double label_smoothing);

/// Mean over the batch, a scalar.
ir::Value mean_loss(ir::Builder& builder, ir::Value per_sample);

/// How many classes beat the label, f32 [B]: those with a greater logit, those with an equal logit and a
/// lower index (so that rank 0 is argmax), and those whose logit or the label's is NaN. The top-k hit is rank
/// < k.
ir::Value label_rank(ir::Builder& builder, ir::Value logits, ir::Value labels);

/// Sum over the batch of [rank < k], times `weight` [B] where it is valid; a scalar.
ir::Value count_hits(ir::Builder& builder, ir::Value rank, double k, ir::Value weight = {});

/// The sum of all elements, a scalar.
ir::Value sum_all(ir::Builder& builder, ir::Value x);

}  // namespace rewire::runtime
