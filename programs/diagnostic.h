// A diagnostic: a quantity of a network during training, measured by a program (diagnose.h). Each is one
// file of diagnostics/ and one row of diagnostics.cpp.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "programs/diagnose_blocks.h"

namespace rewire::programs {

/// A program with the network, its loss and gradients, to which diagnostics add results.
class Observation {
 public:
  Observation(ir::Module& module, ir::Function& function);

  ir::Builder& build() { return b_; }
  const ir::Module& module() const { return module_; }
  const ir::Function& function() { return b_.function(); }
  const std::vector<Block>& blocks() const { return blocks_; }

  /// Adds a result: a scalar f32, which the host averages over batches, or rows [batch, width] f32, which
  /// the row's finish() gets for all samples. Results of joins with one name are numbered.
  void add(const std::string& name, ir::Value value);
  void add_mean(const std::string& name, ir::Value values);
  /// Adds [batch, …] as rows, one per sample.
  void add_rows(const std::string& name, ir::Value rows);
  ir::Value wide(ir::Value x) { return b_.cast(x, ir::DType::f32); }

  /// Returns the observed program's results whose names begin with `prefix`: kForwardPrefix or
  /// kGradientPrefix.
  std::vector<ir::Argument> results_of(const std::string& prefix) const;
  /// Returns one f32 row per sample of the block's output: its class token, or the mean over its tokens or
  /// positions. Invalid if the batch is not the output's first axis.
  ir::Value sample_rows(const Block& block);
  /// Returns the image's tokens at the block's exit, f32 [batch, tokens, width]; invalid if they are fewer
  /// than two.
  ir::Value image_tokens(const Block& block);

 private:
  ir::Module& module_;
  ir::Builder b_;
  const std::vector<Block> blocks_;
  std::vector<ir::Argument> observed_;
  std::set<std::string> names_;
};

/// The rows of all observed samples at one place.
struct SampleRows {
  std::string name;  // name of the result: "blocks.3.effective_rank"
  std::size_t columns = 0;
  std::vector<double> data;  // row-major

  std::size_t rows() const { return columns == 0 ? 0 : data.size() / columns; }
};

struct DiagnosticValue {
  std::string name;
  double value;
};

/// Computes the singular values of a row-major matrix on the host, as many as its shorter side has.
using SingularValues =
    std::function<std::vector<double>(std::span<const double> matrix, std::size_t rows, std::size_t columns)>;

struct DiagnosticRow {
  std::string_view name, doc;
  /// Add results of a block or of the whole network; either may be null.
  void (*of_block)(Observation&, const Block&) = nullptr;
  void (*of_network)(Observation&) = nullptr;
  /// The last part of the names of results that are rows; unique among diagnostics.
  std::string_view rows = {};
  /// Computes values on the host from these rows, place by place in program order.
  std::vector<DiagnosticValue> (*finish)(std::span<const SampleRows* const> places,
                                         const SingularValues&) = nullptr;
};

std::span<const DiagnosticRow* const> diagnostics();
/// Adds a diagnostic that is not a resident, for tests. The row must outlive the process.
void add_diagnostic(const DiagnosticRow& row);

/// Returns a / b; 0 where b is 0.
ir::Value quotient(ir::Builder& builder, ir::Value dividend, ir::Value divisor);

/// Returns the effective rank -sum p ln p, where p are the eigenvalues of the samples' covariance divided by
/// their sum (Zhang et al., 2025). Rows are samples, centred by their own mean. The rank is at most
/// ln min(rows, columns); 0 for constant samples, NaN if a number is not finite.
double effective_rank(std::span<const double> rows, std::size_t count, std::size_t columns,
                      const SingularValues&);

}  // namespace rewire::programs
