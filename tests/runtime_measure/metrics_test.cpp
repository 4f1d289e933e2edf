// Means of metrics over batches.
#include "runtime/measure/metrics.h"

#include <cmath>

#include "tests/support/catch.h"

namespace rewire::test {
namespace {

TEST_CASE("A mean counts each term once over batches of unequal size, and a perplexity is e to the mean") {
  const programs::Metrics metrics = {
      {.name = "loss", .numerator = "loss_sum", .denominator = "targets"},
      {.name = "perplexity", .numerator = "loss_sum", .denominator = "targets", .exponential = true}};
  runtime::MetricSums sums;
  for (const auto& [loss, targets] : {std::pair{6.0, 2.0}, std::pair{4.0, 6.0}}) {
    for (const programs::Metric& metric : metrics) runtime::add_sums(sums, {{metric.name, {loss, targets}}});
  }
  const runtime::MetricValues values = runtime::means(sums, metrics);
  REQUIRE(values.size() == 2);
  CHECK(values[0].value == 1.25);
  CHECK(std::abs(values[1].value - 3.4903429574618414) < 1e-12);  // not the mean of e^3 and e^(2/3)
}

}  // namespace
}  // namespace rewire::test
