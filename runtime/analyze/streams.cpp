#include "runtime/analyze/streams.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/residual.h"
#include "programs/sums.h"
#include "runtime/linalg/lapack.h"

namespace rewire::runtime {
namespace {

using ir::Opcode;
using ir::Value;

constexpr const char* kQuantities[] = {"stream", "branch", "parallel", "cosine"};

/// a / b, 0 where b is 0.
Value quotient(ir::Builder& b, Value dividend, Value divisor) {
  const Value zero = b.constant_like(divisor, 0);
  const Value is_zero = b.compare("eq", divisor, zero);
  return b.select(is_zero, zero, b.div(dividend, b.select(is_zero, b.constant_like(divisor, 1), divisor)));
}

void add_join_results(ir::Builder& b, const ir::Join& join, std::size_t index) {
  const auto of_position = [&](Value x, Value y) {
    const auto wide = [&](Value z) { return b.cast(z, ir::DType::f32); };
    return b.sum(b.mul(wide(x), wide(y)), {join.channel_axis});
  };
  const Value xx = of_position(join.stream, join.stream), ff = of_position(join.branch, join.branch),
              xf = of_position(join.stream, join.branch);
  const auto root = [&](Value z) { return b.unary(Opcode::sqrt, z); };
  const Value values[] = {xx, ff, quotient(b, b.mul(xf, xf), xx), quotient(b, xf, b.mul(root(xx), root(ff)))};
  for (std::size_t i = 0; i < std::size(values); ++i)
    b.result(fmt::format("{}.{}", kQuantities[i], index), programs::mean_all(b, values[i]));
}

/// What the product reads whose value, but for a bias, is `logits`; logits themselves where there is none.
Value features_of(const ir::Function& forward, Value logits) {
  const std::vector<std::int32_t> definitions = forward.definitions();
  for (Value at = logits;;) {
    const std::int32_t definition = definitions[static_cast<std::size_t>(at.id)];
    if (definition < 0) return logits;
    const ir::Op& op = forward.body[static_cast<std::size_t>(definition)];
    if (op.code == Opcode::matmul) return op.operands[0];
    if (op.code != Opcode::add && op.code != Opcode::reshape && op.code != Opcode::cast) return logits;
    at = op.operands[0];
  }
}

std::vector<ir::Join> joins_of(const ir::Function& forward) {
  std::vector<ir::Join> joins;
  for (const std::size_t at : ir::find_joins(forward)) joins.push_back(ir::read_join(forward.body[at]));
  return joins;
}

}  // namespace

void add_streams_program(ir::Module& module) {
  ir::Function function = module.function("forward");
  function.name = "streams";
  std::vector<ir::Argument> results;
  results.swap(function.results);
  const std::vector<ir::Join> joins = joins_of(function);
  if (joins.empty()) user_error("the network has no residual joins, so that it has no stream to measure");
  ir::Builder b(module, function);
  for (std::size_t j = 0; j < joins.size(); ++j) add_join_results(b, joins[j], j);
  for (const ir::Argument& result : results) {
    if (result.name != "logits") continue;
    const Value features = features_of(function, result.value);
    if (function.type(features).rank() == 2) b.result("features", b.cast(features, ir::DType::f32));
  }
  module.functions.push_back(std::move(function));
}

StreamStatistics measure_streams(const ir::Module& module, Engine& engine, const NextBatch& next) {
  StreamStatistics statistics;
  for (const ir::Join& join : joins_of(module.function("forward")))
    statistics.joins.push_back({join.describe()});
  std::vector<double> features;
  std::int64_t batches = 0;
  for (TensorMap arguments; next(arguments); ++batches, arguments.clear()) {
    statistics.images += arguments.begin()->second.type().shape.at(0);
    const TensorMap results = engine.run("streams", arguments);
    const auto number = [&](const char* quantity, std::size_t join) {
      return to_double(results.at(fmt::format("{}.{}", quantity, join))).data.at(0);
    };
    for (std::size_t j = 0; j < statistics.joins.size(); ++j) {
      JoinStream& join = statistics.joins[j];
      double* const sums[] = {&join.stream, &join.branch, &join.parallel, &join.cosine};
      for (std::size_t i = 0; i < std::size(sums); ++i) *sums[i] += number(kQuantities[i], j);
    }
    if (const auto found = results.find("features"); found != results.end()) {
      const ir::Tensor rows = to_double(found->second);
      features.insert(features.end(), rows.data.begin(), rows.data.end());
    }
  }
  for (JoinStream& join : statistics.joins) {
    for (double* const sum : {&join.stream, &join.branch, &join.parallel, &join.cosine})
      *sum /= static_cast<double>(batches);
  }
  if (!features.empty()) {
    statistics.features = std::ssize(features) / statistics.images;
    statistics.effective_rank = effective_rank(features, static_cast<std::size_t>(statistics.images),
                                               static_cast<std::size_t>(statistics.features));
  }
  return statistics;
}

double effective_rank(std::span<const double> features, std::size_t rows, std::size_t columns) {
  std::vector<double> centred(features.begin(), features.end());
  for (std::size_t r = 0; r < rows; ++r) {
    const std::span<double> row = std::span(centred).subspan(r * columns, columns);
    const double mean = std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(columns);
    for (double& x : row) x -= mean;
  }
  std::vector<double> values(std::min(rows, columns));
  singular_values({1, rows, columns}, centred, values);
  double total = 0, entropy = 0;
  for (double& value : values) total += value *= value;
  for (const double value : values) {
    if (const double p = value / total; p > 0) entropy -= p * std::log(p);
  }
  return entropy;
}

}  // namespace rewire::runtime
