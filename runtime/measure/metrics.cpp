#include "runtime/measure/metrics.h"

#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <numeric>
#include <utility>

#include "programs/objective.h"
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
    values.push_back({metric.name, sum->second.numerator / sum->second.denominator});
  }
  return values;
}

std::optional<Evaluation> evaluate(Engine& engine, const std::vector<EvalProgram>& programs, Loader& loader,
                                   const std::function<bool(std::int64_t done)>& go_on,
                                   const std::function<void(Batch& first)>& see_first) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<MetricSums> sums(programs.size());
  double samples = 0;
  Batch batch;
  std::deque<std::pair<Engine::Ticket, std::size_t>> pending;  // with the program
  const auto read = [&] {
    const auto [ticket, program] = pending.front();
    add_results(sums[program], programs[program].metrics, engine.results(ticket));
    pending.pop_front();
  };
  for (std::int64_t done = 0; done < loader.batches_per_epoch(); ++done) {
    if (!go_on(done)) return std::nullopt;
    loader.next(batch);
    if (done == 0) see_first(batch);
    const auto weights = batch.tensors.at("weight").as<float>();
    samples = std::accumulate(weights.begin(), weights.end(), samples);
    for (std::size_t i = 0; i < programs.size(); ++i) {
      TensorMap inputs = take_inputs(programs[i].function, batch);
      pending.emplace_back(engine.submit(programs[i].function.name, inputs), i);
      put_back(std::move(inputs), batch);
      if (pending.size() > kRunsAhead) read();
    }
  }
  while (!pending.empty()) read();
  if (samples == 0) user_error("none of the test samples can be read, so nothing can be evaluated");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  Evaluation evaluation{{}, static_cast<std::int64_t>(samples), took.count()};
  for (std::size_t i = 0; i < programs.size(); ++i) {
    for (MetricValue& metric : means(sums[i], programs[i].metrics)) {
      metric.name.insert(0, programs[i].prefix);
      evaluation.metrics.push_back(std::move(metric));
    }
  }
  return evaluation;
}

}  // namespace rewire::runtime
