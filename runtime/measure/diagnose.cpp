#include "runtime/measure/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "ir/error.h"
#include "programs/diagnostic.h"
#include "runtime/linalg/lapack.h"

namespace rewire::runtime {
namespace {

double mean_of(std::span<const double> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

std::vector<double> values_of(std::span<const double> matrix, std::size_t rows, std::size_t columns) {
  std::vector<double> copy(matrix.begin(), matrix.end()), values(std::min(rows, columns));
  singular_values({1, rows, columns}, copy, values);
  return values;
}

bool is_of(const programs::DiagnosticRow& row, std::string_view name) {
  const std::size_t number = name.rfind('#');  // of several of one name
  return !row.rows.empty() && name.substr(0, number).ends_with(fmt::format(".{}", row.rows));
}

}  // namespace

DiagnoseMeans::DiagnoseMeans(const ir::Function& program) {
  for (const ir::Argument& result : program.results) {
    const ir::TensorType& type = program.type(result.value);
    const bool is_rows = type.rank() == 2;
    results_.push_back({result.name, is_rows ? static_cast<std::size_t>(type.shape[1]) : 0, {}});
  }
}

void DiagnoseMeans::add(const TensorMap& results) {
  for (programs::SampleRows& result : results_) {
    const ir::Tensor tensor = to_double(results.find(result.name)->second);
    result.data.insert(result.data.end(), tensor.data.begin(), tensor.data.end());
  }
}

MetricValues DiagnoseMeans::values() const {
  std::map<std::string, double, std::less<>> finished;
  std::size_t claimed = 0;
  for (const programs::DiagnosticRow* row : programs::diagnostics()) {
    std::vector<const programs::SampleRows*> places;
    for (const programs::SampleRows& result : results_) {
      if (result.columns > 0 && is_of(*row, result.name)) places.push_back(&result);
    }
    if (places.empty()) continue;
    if (row->finish == nullptr)
      internal_error("the diagnostic {} has rows but no function that finishes them", row->name);
    claimed += places.size();
    for (const auto& [name, value] : row->finish(places, values_of)) finished.emplace(name, value);
  }
  const auto rows = std::ranges::count_if(results_, [](const auto& result) { return result.columns > 0; });
  if (static_cast<std::size_t>(rows) != claimed)
    internal_error("{} of {} results with rows belong to no diagnostic",
                   rows - static_cast<std::ptrdiff_t>(claimed), rows);
  MetricValues values;
  const auto add = [&](const std::string& name, double value) {
    values.push_back({name, std::isfinite(value) ? value : std::numeric_limits<double>::quiet_NaN()});
  };
  for (const programs::SampleRows& result : results_) {
    if (result.columns == 0) {
      add(result.name, mean_of(result.data));
    } else if (const auto found = finished.find(result.name); found != finished.end()) {
      add(result.name, found->second);
      finished.erase(found);
    }
  }
  for (const auto& [name, value] : finished) add(name, value);
  return values;
}

double effective_rank(std::span<const double> features, std::size_t rows, std::size_t columns) {
  return programs::effective_rank(features, rows, columns, values_of);
}

TensorMap first_rows_of(const ir::Function& function, const TensorMap& batch) {
  TensorMap rows;
  for (const ir::Argument& argument : function.arguments) {
    const auto tensor = batch.find(argument.name);
    if (tensor == batch.end())
      user_error("{} takes '{}', but a data set has no such tensor", function.name, argument.name);
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
