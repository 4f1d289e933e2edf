// A quantity of a network while it learns, which a program measures (diagnose.h): one file of diagnostics/ and one row of
// diagnostics.cpp.
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

/// A program that has the network, its loss and gradients, and gets what is to be measured of them.
class Observation {
 public:
  Observation(ir::Module& module, ir::Function& function);

  ir::Builder& build() { return b_; }
  const ir::Module& module() const { return module_; }
  const ir::Function& function() { return b_.function(); }
  const std::vector<Block>& blocks() const { return blocks_; }

  /// A scalar f32, of which the host takes the mean over batches; or rows [batch, width] f32, which a row's finish() gets of all
  /// samples. Names that joins share get a number.
  void add(const std::string& name, ir::Value value);
  void add_mean(const std::string& name, ir::Value values);
  /// [batch, …] as rows, one a sample.
  void add_rows(const std::string& name, ir::Value rows);
  ir::Value wide(ir::Value x) { return b_.cast(x, ir::DType::f32); }

  /// The observed program's results whose names begin with `prefix`, as kForwardPrefix or kGradientPrefix.
  std::vector<ir::Argument> results_of(const std::string& prefix) const;
  /// One row a sample of the block's output, f32: its class token, or the mean over its tokens or positions. Invalid where the batch
  /// is not the output's first axis.
  ir::Value sample_rows(const Block& block);
  /// The tokens of the image at the block's exit, f32 [batch, tokens, width], where there are two or more; else invalid.
  ir::Value image_tokens(const Block& block);

 private:
  ir::Module& module_;
  ir::Builder b_;
  const std::vector<Block> blocks_;
  std::vector<ir::Argument> observed_;
  std::set<std::string> names_;
};

/// Rows of all samples that were seen, of one place.
struct SampleRows {
  std::string name;  // of the result: "blocks.3.effective_rank"
  std::size_t columns = 0;
  std::vector<double> data;  // row-major

  std::size_t rows() const { return columns == 0 ? 0 : data.size() / columns; }
};

struct DiagnosticValue {
  std::string name;
  double value;
};

/// What the host computes with: the singular values of a matrix, row-major; as many as its shorter side has.
using SingularValues =
    std::function<std::vector<double>(std::span<const double> matrix, std::size_t rows, std::size_t columns)>;

struct DiagnosticRow {
  std::string_view name, doc;
  /// Adds results; either may be null.
  void (*of_block)(Observation&, const Block&) = nullptr;
  void (*of_network)(Observation&) = nullptr;
  /// The last part of the names of results that are rows, none of another diagnostic's; and what the host makes of them, place by
  /// place in the order of the program.
  std::string_view rows = {};
  std::vector<DiagnosticValue> (*finish)(std::span<const SampleRows* const> places,
                                         const SingularValues&) = nullptr;
};

std::span<const DiagnosticRow* const> diagnostics();
/// For a diagnostic that is no resident, as tests have; the row must outlive the process.
void add_diagnostic(const DiagnosticRow& row);

/// a / b, 0 where b is 0.
ir::Value quotient(ir::Builder& builder, ir::Value dividend, ir::Value divisor);

/// -sum p ln p, where p are the eigenvalues of the samples' covariance divided by their sum, of rows that are samples, each less its
/// own mean (Zhang et al., 2025). At most ln min(rows, columns); 0 for samples that are constant, NaN where a number is not finite.
double effective_rank(std::span<const double> rows, std::size_t count, std::size_t columns,
                      const SingularValues&);

}  // namespace rewire::programs
