#include "runtime/measure/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "ir/error.h"
#include "runtime/linalg/lapack.h"

namespace rewire::runtime {
namespace {

double mean_of(std::span<const double> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

/// Each row less its mean. What is left of a constant row is rounding, and counts as nothing.
void centre(std::span<double> row) {
  constexpr double kRounding = 8 * std::numeric_limits<double>::epsilon();
  const double mean = mean_of(row);
  for (double& x : row) x -= mean;
  const bool is_constant =
      std::ranges::all_of(row, [&](double x) { return std::abs(x) <= kRounding * std::abs(mean); });
  if (is_constant) std::ranges::fill(row, 0.0);
}

}  // namespace

DiagnoseMeans::DiagnoseMeans(const ir::Function& program) {
  for (const ir::Argument& result : program.results) {
    const ir::TensorType& type = program.type(result.value);
    Diagnostic& diagnostic = diagnostics_.emplace_back();
    diagnostic.name = result.name;
    diagnostic.is_rank = type.rank() == 2;
    if (diagnostic.is_rank) diagnostic.width = static_cast<std::size_t>(type.shape[1]);
  }
}

void DiagnoseMeans::add(const TensorMap& results) {
  for (Diagnostic& diagnostic : diagnostics_) {
    const ir::Tensor tensor = to_double(results.find(diagnostic.name)->second);
    diagnostic.data.insert(diagnostic.data.end(), tensor.data.begin(), tensor.data.end());
  }
}

MetricValues DiagnoseMeans::values() const {
  MetricValues values;
  for (const auto& [name, is_rank, width, data] : diagnostics_) {
    const double value =
        is_rank ? effective_rank(data, width == 0 ? 0 : data.size() / width, width) : mean_of(data);
    values.push_back({name, std::isfinite(value) ? value : std::numeric_limits<double>::quiet_NaN()});
  }
  return values;
}

double effective_rank(std::span<const double> features, std::size_t rows, std::size_t columns) {
  if (!std::ranges::all_of(features, [](double x) { return std::isfinite(x); }))
    return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> centred(features.begin(), features.end());
  for (std::size_t r = 0; r < rows; ++r) centre(std::span(centred).subspan(r * columns, columns));
  std::vector<double> values(std::min(rows, columns));
  singular_values({1, rows, columns}, centred, values);
  double total = 0, entropy = 0;
  for (double& value : values) total += value *= value;
  for (const double value : values) {
    if (const double p = value / total; p > 0) entropy -= p * std::log(p);
  }
  return entropy;
}

TensorMap first_rows_of(const ir::Function& function, const TensorMap& batch) {
  TensorMap rows;
  for (const ir::Argument& argument : function.arguments) {
    const auto tensor = batch.find(argument.name);
    if (tensor == batch.end())
      user_error("{} takes '{}', which a data set does not have", function.name, argument.name);
    HostTensor first(function.type(argument.value));
    const std::span<const std::byte> all = tensor->second.bytes();
    if (all.size() < first.bytes().size())
      internal_error("'{}' has fewer samples than {} takes", argument.name, function.name);
    std::memcpy(first.bytes().data(), all.data(), first.bytes().size());
    rows.emplace(argument.name, std::move(first));
  }
  return rows;
}

MetricValues conditioning_values(const Conditioning& conditioning) {
  MetricValues values;
  const auto add = [&](const std::string& name, std::optional<double> number) {
    if (number) values.push_back({name, *number});
  };
  for (const BlockConditioning& block : conditioning.blocks) {
    if (!block.attention.empty()) {
      add(block.block + ".attention_condition", mean_of(block.attention));
      add(block.block + ".attention_condition_max", *std::ranges::max_element(block.attention));
    }
    add(block.block + ".value_output_condition", block.value_output);
    for (const JoinConditioning& join : block.joins)
      add(fmt::format("{}.{}.condition", block.block, join.site), join.jacobian);
    add(block.block + ".condition", block.jacobian);
  }
  return values;
}

}  // namespace rewire::runtime
