#include "runtime/measure/statistic.h"

#include <boost/math/distributions/students_t.hpp>

#include <cmath>

namespace rewire::runtime {

Statistic statistic_of(const std::vector<double>& values) {
  Statistic statistic;
  statistic.count = std::ssize(values);
  if (values.empty()) return statistic;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) statistic.mean += value / n;
  if (values.size() < 2) return statistic;
  double square = 0;
  for (const double value : values) square += (value - statistic.mean) * (value - statistic.mean);
  statistic.deviation = std::sqrt(square / (n - 1));
  return statistic;
}

double student_95(std::int64_t degrees) {
  constexpr double kBelow = 0.975;
  return boost::math::quantile(boost::math::students_t(static_cast<double>(degrees)), kBelow);
}

Difference paired_difference(const std::vector<std::pair<double, double>>& pairs) {
  std::vector<double> differences;
  for (const auto& [a, b] : pairs) differences.push_back(b - a);
  const Statistic statistic = statistic_of(differences);
  Difference result{statistic.count, statistic.mean, statistic.mean, statistic.mean};
  if (statistic.count < 2) return result;
  const double half =
      student_95(statistic.count - 1) * statistic.deviation / std::sqrt(static_cast<double>(statistic.count));
  result.low -= half;
  result.high += half;
  return result;
}

}  // namespace rewire::runtime
