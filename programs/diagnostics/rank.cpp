// Effective ranks of each block's output and of the features (Zhang et al., 2025). The host computes them in
// double precision. An f32 Gram matrix would lose what is below 1e-7 of its largest eigenvalue. The rows of
// several batches count together. Also, no device's library has eigh.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/opcodes.h"
#include "programs/diagnostic.h"
#include "programs/programs.h"

namespace rewire::programs {
namespace {

using ir::Opcode;
using ir::Value;

constexpr std::string_view kEffectiveRank = "effective_rank";

/// Returns the input of the product that gives `logits`,
/// before a bias. Returns `logits` if there is no product.
Value features_of(const ir::Function& function, Value logits) {
  const std::vector<std::int32_t> definitions = function.definitions();
  for (Value at = logits;;) {
    const std::int32_t definition = definitions[static_cast<std::size_t>(at.id)];
    if (definition < 0) return logits;
    const ir::Op& op = function.body[static_cast<std::size_t>(definition)];
    if (op.code == Opcode::matmul) return op.operands[0];
    if (op.code != Opcode::add && op.code != Opcode::reshape && op.code != Opcode::cast) return logits;
    at = op.operands[0];
  }
}

/// Subtracts the row's mean. A constant row leaves only rounding errors, which become 0.
void centre(std::span<double> row) {
  constexpr double kRounding = 8 * std::numeric_limits<double>::epsilon();
  const double mean = std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size());
  for (double& x : row) x -= mean;
  const bool is_constant =
      std::ranges::all_of(row, [&](double x) { return std::abs(x) <= kRounding * std::abs(mean); });
  if (is_constant) std::ranges::fill(row, 0.0);
}

void add_features(Observation& seen) {
  const auto add = [&](Value features) {
    if (seen.build().type(features).rank() == 2)
      seen.add_rows(fmt::format("features.{}", kEffectiveRank), seen.wide(features));
  };
  for (const ir::Argument& logits : seen.results_of(std::string(kForwardPrefix) + "logits"))
    add(features_of(seen.function(), logits.value));
  for (const ir::Argument& features : seen.results_of(std::string(kForwardPrefix) + "features"))
    add(features.value);
}

std::vector<DiagnosticValue> finish(std::span<const SampleRows* const> places,
                                    const SingularValues& singular_values) {
  std::vector<DiagnosticValue> ranks;
  for (const SampleRows* place : places)
    ranks.push_back(
        {place->name, effective_rank(place->data, place->rows(), place->columns, singular_values)});
  return ranks;
}

}  // namespace

double effective_rank(std::span<const double> rows, std::size_t count, std::size_t columns,
                      const SingularValues& singular_values) {
  if (!std::ranges::all_of(rows, [](double x) { return std::isfinite(x); }))
    return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> centred(rows.begin(), rows.end());
  for (std::size_t r = 0; r < count; ++r) centre(std::span(centred).subspan(r * columns, columns));
  std::vector<double> values = singular_values(centred, count, columns);
  double total = 0, entropy = 0;
  for (double& value : values) total += value *= value;
  for (const double value : values) {
    if (const double p = value / total; p > 0) entropy -= p * std::log(p);
  }
  return entropy;
}

extern const DiagnosticRow kRank{.name = "rank",
                                 .doc = "effective ranks of each block's output and of the features",
                                 .of_block =
                                     [](Observation& seen, const Block& block) {
                                       if (const Value rows = seen.sample_rows(block))
                                         seen.add_rows(fmt::format("{}.{}", block.name, kEffectiveRank),
                                                       rows);
                                     },
                                 .of_network = add_features,
                                 .rows = kEffectiveRank,
                                 .finish = finish};

}  // namespace rewire::programs
