// The host's part of programs/diagnose.h: means over batches, and effective ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/module.h"
#include "programs/diagnostic.h"
#include "runtime/io/host_tensor.h"
#include "runtime/measure/conditioning.h"
#include "runtime/measure/metrics.h"

namespace rewire::runtime {

/// Collects results of a program `diagnose` over batches of one size. Rows of all batches go to their
/// diagnostic (programs/diagnostic.h). Any other result becomes its mean over batches, a gradient's norm
/// too.
class DiagnoseMeans {
 public:
  explicit DiagnoseMeans(const ir::Function& program);
  void add(const TensorMap& results);
  /// Returns values in the order of the program's results, then those that a diagnostic makes of several
  /// results. NaN marks a number that is not finite.
  MetricValues values() const;

 private:
  std::vector<programs::SampleRows> results_;  // a scalar has no columns, one number per batch
};

/// Returns programs::effective_rank of `features` [rows, columns].
double effective_rank(std::span<const double> features, std::size_t rows, std::size_t columns);

/// Returns the first samples of a batch, as many as the function takes. Throws UserError if a tensor is
/// missing.
TensorMap first_rows_of(const ir::Function& function, const TensorMap& batch);

/// Images and largest Jacobian of conditioning during a run.
inline constexpr std::int64_t kConditionedImages = 8, kLargestJacobian = 2048;

/// Returns "blocks.3.attention_condition", the mean over its maps, and "…_max";
/// "blocks.3.value_output_condition"; "blocks.3.attn.condition" of the join's Jacobian; "blocks.3.condition"
/// of the block's. Leaves out what is not measured.
MetricValues conditioning_values(const Conditioning& conditioning);

}  // namespace rewire::runtime
