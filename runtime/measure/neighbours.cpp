#include "runtime/measure/neighbours.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <set>
#include <utility>

#include "runtime/measure/knn.h"

namespace rewire::runtime {
namespace {

/// Features and labels of the images that can be read.
struct Features {
  std::vector<std::vector<float>> rows;  // of each program
  std::vector<std::int64_t> labels;
};

/// A batch under way: which of its rows are wanted.
struct PendingFeatures {
  Engine::Ticket ticket;
  std::size_t program;
  std::vector<bool> wanted;
};

void read(Engine& engine, const PendingFeatures& run, Features& features) {
  const TensorMap results = engine.results(run.ticket);
  const HostTensor& rows = results.at("features");
  const auto width = static_cast<std::ptrdiff_t>(rows.type().shape.at(1));
  std::vector<float>& into = features.rows[run.program];
  auto row = rows.as<float>().begin();
  for (const bool wanted : run.wanted) {
    if (wanted) into.insert(into.end(), row, row + width);
    row += width;
  }
}

/// Marks the rows that are images, while `left` more are wanted, and takes their labels.
std::vector<bool> wanted_rows(const Batch& batch, std::int64_t& left, std::vector<std::int64_t>& labels) {
  const auto weights = batch.tensors.at("weight").as<float>();
  const auto all = batch.tensors.at("label").as<std::int64_t>();
  std::vector<bool> wanted(weights.size());
  for (std::size_t row = 0; row < weights.size(); ++row) {
    wanted[row] = weights[row] != 0 && left > 0;
    if (!wanted[row]) continue;
    --left;
    labels.push_back(all[row]);
  }
  return wanted;
}

std::optional<Features> collect(Engine& engine, const std::vector<FeatureProgram>& programs,
                                const DataFeed& data, std::int64_t images,
                                const std::function<bool()>& go_on) {
  Features features{std::vector<std::vector<float>>(programs.size()), {}};
  std::deque<PendingFeatures> pending;
  const auto settle = [&](std::size_t ahead) {
    for (; pending.size() > ahead; pending.pop_front()) read(engine, pending.front(), features);
  };
  const std::unique_ptr<Loader> loader = data.load();
  Batch batch;
  std::int64_t left = images;
  for (std::int64_t i = 0; i < data.batches() && left > 0; ++i) {
    if (!go_on()) return std::nullopt;
    loader->next(batch);
    const std::vector<bool> wanted = wanted_rows(batch, left, features.labels);
    for (std::size_t program = 0; program < programs.size(); ++program) {
      TensorMap inputs = take_inputs(programs[program].function, batch);
      pending.push_back({engine.submit(programs[program].function.name, inputs), program, wanted});
      put_back(std::move(inputs), batch);
      settle(kRunsAhead);
    }
  }
  settle(0);
  return features;
}

std::set<std::int64_t> labels_of(const DataFeed& bank, const DataFeed& queries) {
  std::set<std::int64_t> labels;
  for (const DataFeed* data : {&bank, &queries}) {
    for (std::int64_t i = 0; i < data->count(); ++i) labels.insert(data->images("eval.knn").label(i));
  }
  return labels;
}

}  // namespace

std::vector<std::string> neighbour_metric_names(const DataFeed& bank, const DataFeed& queries) {
  std::vector<std::string> names = {"knn_top1"};
  if (programs::tells_top5(std::ssize(labels_of(bank, queries)))) names.emplace_back("knn_top5");
  return names;
}

std::optional<MetricValues> neighbour_metrics(Engine& engine, const std::vector<FeatureProgram>& programs,
                                              const DataFeed& bank, const DataFeed& queries,
                                              const NeighbourOptions& options,
                                              const std::function<bool()>& go_on) {
  constexpr auto kAll = std::numeric_limits<std::int64_t>::max();
  const auto known = collect(engine, programs, bank, options.images == 0 ? kAll : options.images, go_on);
  if (!known) return std::nullopt;
  const auto asked = collect(engine, programs, queries, kAll, go_on);
  if (!asked) return std::nullopt;
  const KnnOptions knn{.neighbours = options.neighbours, .classes = *labels_of(bank, queries).rbegin() + 1};
  const std::vector<std::string> names = neighbour_metric_names(bank, queries);
  MetricValues metrics;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const ir::Function& function = programs[i].function;
    const std::int64_t width = function.type(function.result("features")).shape.at(1);
    const KnnAccuracy accuracy =
        knn_accuracy(known->rows[i], known->labels, asked->rows[i], asked->labels, width, knn);
    const double shares[] = {accuracy.top1, accuracy.top5};
    for (std::size_t k = 0; k < names.size(); ++k)
      metrics.push_back({std::string(programs[i].prefix) + names[k], shares[k]});
  }
  return metrics;
}

}  // namespace rewire::runtime
