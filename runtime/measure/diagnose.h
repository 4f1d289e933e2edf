// The host's half of programs/diagnose.h: means over batches, and effective ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/io/host_tensor.h"
#include "runtime/measure/conditioning.h"
#include "runtime/measure/metrics.h"

namespace rewire::runtime {

/// What a program `diagnose` gives of batches of one size. An effective rank is that of all their rows; all else is
/// the mean over the batches, a gradient's norm too.
class DiagnoseMeans {
 public:
  explicit DiagnoseMeans(const ir::Function& program);
  void add(const TensorMap& results);
  /// In the order of the program's results; NaN where a number is not finite.
  MetricValues values() const;

 private:
  struct Diagnostic {
    std::string name;
    bool is_rank = false;
    std::size_t width = 0;     // of a rank's rows
    std::vector<double> data;  // the rows, or a number a batch
  };
  std::vector<Diagnostic> diagnostics_;
};

/// -sum p ln p, where p are the eigenvalues of the samples' covariance divided by their sum: of `rows` samples
/// of `features`, each less its own mean (Zhang et al., 2025). At most ln min(rows, columns); 0 for samples that are
/// constant, NaN where a feature is not finite.
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
