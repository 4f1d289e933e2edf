// The host's half of programs/diagnose.h: means over batches, and effective ranks.
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

/// What a program `diagnose` gives of batches of one size. Rows are finished by their diagnostic (programs/diagnostic.h), of all
/// batches; all else is the mean over the batches, a gradient's norm too.
class DiagnoseMeans {
 public:
  explicit DiagnoseMeans(const ir::Function& program);
  void add(const TensorMap& results);
  /// In the order of the program's results, and behind them what diagnostics make of several; NaN where a number is not finite.
  MetricValues values() const;

 private:
  std::vector<programs::SampleRows> results_;  // of scalars without columns, a number a batch
};

/// programs::effective_rank, of `rows` samples of `features`.
double effective_rank(std::span<const double> features, std::size_t rows, std::size_t columns);

/// Of a batch, its first samples as the function takes them. UserError where it lacks a tensor.
TensorMap first_rows_of(const ir::Function& function, const TensorMap& batch);

/// Images that conditioning over a run is of, and the largest Jacobian that it computes.
inline constexpr std::int64_t kConditionedImages = 8, kLargestJacobian = 2048;

/// "blocks.3.attention_condition", the mean over its maps, and "…_max"; "blocks.3.value_output_condition";
/// "blocks.3.attn.condition" of the join's Jacobian; "blocks.3.condition" of the block's. What is not measured is left
/// out.
MetricValues conditioning_values(const Conditioning& conditioning);

}  // namespace rewire::runtime
