#include "runtime/measure/metrics.h"

#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <numeric>
#include <span>
#include <utility>

#include "programs/objective.h"
#include "runtime/group/agreement.h"
#include "runtime/network/data_feed.h"

namespace rewire::runtime {

std::string metrics_text(const MetricValues& values, int percent_digits, const char* separator) {
  std::string text;
  for (const MetricValue& metric : values) {
    const programs::MetricInfo info = programs::metric_info(metric.name);
    if (info.shown == programs::Shown::in_files) continue;
    text += fmt::format("{}{} ", text.empty() ? "" : separator, info.title);
    text += info.shown == programs::Shown::percent
                ? fmt::format("{:.{}f} %", 100 * metric.value, percent_digits)
                : fmt::format("{:.4f}", metric.value);
  }
  return text;
}

void add_results(MetricSums& sums, const programs::Metrics& metrics, const TensorMap& results) {
  const auto scalar = [&](const std::string& name) {
    return static_cast<double>(results.at(name).as<float>()[0]);
  };
  for (const programs::Metric& metric : metrics) {
    MetricSum& sum = sums[metric.name];
    sum.numerator += scalar(metric.numerator);
    sum.denominator += metric.denominator.empty() ? metric.count : scalar(metric.denominator);
  }
}

void add_sums(MetricSums& sums, const MetricSums& more) {
  for (const auto& [name, sum] : more) {
    sums[name].numerator += sum.numerator;
    sums[name].denominator += sum.denominator;
  }
}

MetricValues means(const MetricSums& sums, const programs::Metrics& metrics) {
  MetricValues values;
  for (const programs::Metric& metric : metrics) {
    const auto sum = sums.find(metric.name);
    if (sum == sums.end()) continue;
    values.push_back({metric.name, metric.value(sum->second.numerator, sum->second.denominator)});
  }
  return values;
}

std::optional<Evaluation> evaluate(Engine& engine, const std::vector<EvalProgram>& programs, Loader& loader,
                                   Group& group, const std::function<bool(std::int64_t done)>& go_on,
                                   const std::function<void(Batch& first)>& see_first) {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t ranks = group.size();
  const std::int64_t rounds = (loader.batches_per_epoch() + ranks - 1) / ranks;
  // A round has this rank's number of samples, then the sums of each program's metrics.
  std::size_t row = 1;
  for (const EvalProgram& program : programs) row += program.metrics.size();
  std::vector<MetricSum> own(static_cast<std::size_t>(rounds) * row);
  struct Run {
    Engine::Ticket ticket;
    const EvalProgram& program;
    MetricSum* sums;
  };
  std::deque<Run> pending;
  const auto read = [&] {
    const Run run = pending.front();
    MetricSums sums;
    add_results(sums, run.program.metrics, engine.results(run.ticket));
    for (std::size_t i = 0; i < run.program.metrics.size(); ++i)
      run.sums[i] = sums.at(run.program.metrics[i].name);
    pending.pop_front();
  };
  Batch batch;
  for (std::int64_t round = 0; round < rounds; ++round) {
    if (!go_on(round * ranks)) return std::nullopt;
    if (round >= loader.own_per_epoch()) break;  // the last round has fewer batches than ranks
    loader.next(batch);
    if (round == 0 && group.rank() == 0) see_first(batch);
    const auto weights = batch.tensors.at("weight").as<float>();
    MetricSum* sums = &own[static_cast<std::size_t>(round) * row];
    sums++->numerator = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (const EvalProgram& program : programs) {
      TensorMap inputs = take_inputs(program.function, batch);
      pending.push_back({engine.submit(program.function.name, inputs), program, sums});
      put_back(std::move(inputs), batch);
      if (pending.size() > kRunsAhead) read();
      sums += program.metrics.size();
    }
  }
  while (!pending.empty()) read();
  const std::vector<MetricSum> all = gathered(group, std::span<const MetricSum>(own));
  std::vector<MetricSum> totals(row);
  for (std::int64_t of_all = 0; of_all < loader.batches_per_epoch(); ++of_all) {
    const std::int64_t at = of_all % ranks * rounds + of_all / ranks;
    for (std::size_t i = 0; i < row; ++i) {
      totals[i].numerator += all[static_cast<std::size_t>(at) * row + i].numerator;
      totals[i].denominator += all[static_cast<std::size_t>(at) * row + i].denominator;
    }
  }
  const double samples = totals[0].numerator;
  if (samples == 0) user_error("none of the test samples can be read, so nothing can be evaluated");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  Evaluation evaluation{{}, static_cast<std::int64_t>(samples), took.count()};
  const MetricSum* sum = &totals[1];
  for (const EvalProgram& program : programs) {
    for (const programs::Metric& metric : program.metrics) {
      if (sum->denominator != 0 || evaluation.metrics.empty())
        evaluation.metrics.push_back(
            {std::string(program.prefix) + metric.name, metric.value(sum->numerator, sum->denominator)});
      ++sum;
    }
  }
  return evaluation;
}

}  // namespace rewire::runtime
