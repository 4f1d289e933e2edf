#include "cli/analyze_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/json.h"
#include "cli/streams.h"
#include "cli/table.h"
#include "ir/error.h"
#include "ir/verify.h"
#include "runtime/analyze/streams.h"
#include "runtime/exec/make_engine.h"
#include "runtime/train/data_feed.h"
#include "runtime/train/run_folder.h"
#include "runtime/train/run_programs.h"
#include "runtime/train/run_weights.h"
#include "runtime/train/weights.h"

namespace rewire::cli {
namespace {

struct MeasuredRun {
  std::string weights;  // their file
  runtime::StreamStatistics statistics;
};

MeasuredRun measure(const AnalyzeRunRequest& request) {
  runtime::NetworkRequest asked = request.network;
  const runtime::RunFolder folder = runtime::RunFolder::open(asked.model);
  asked.run = asked.model;
  asked.model = folder.file("recipe.toml");
  runtime::RunWeights weights =
      runtime::find_run_weights(folder, request.checkpoint,
                                request.averages ? runtime::WeightsOf::averages : runtime::WeightsOf::steps);
  const runtime::Network network = runtime::resolve_network(asked);
  const runtime::Recipe& recipe = network.recipe;
  const std::int64_t epoch =
      weights.checkpoint ? runtime::last_epoch(weights.checkpoint->position) : recipe.train.epochs - 1;
  const runtime::NetworkSource source = runtime::network_source(network);
  const runtime::DataFeed data(recipe, runtime::Split::test,
                               runtime::network_face(source.forward(1), recipe.objective));
  ir::Module module =
      runtime::make_eval_module(source, recipe.objective, data.batch(), epoch, recipe.train.epochs).module;
  std::erase_if(module.functions, [](const ir::Function& function) { return function.name == "eval"; });
  runtime::add_streams_program(module);
  ir::verify(module);
  const auto engine = runtime::make_engine(request.engine, module, static_cast<int>(recipe.train.threads));
  const std::string file = weights.file;
  runtime::start_state(*engine, module, runtime::read_run_weights(module, weights),
                       static_cast<std::uint64_t>(recipe.seed));
  const std::unique_ptr<runtime::Loader> loader = data.load();
  // Whole batches alone: the last of a pass is filled up.
  const std::int64_t whole = data.images() / data.batch(),
                     wanted = (request.images + data.batch() - 1) / data.batch();
  if (whole == 0) {
    user_error(
        "analyze: a batch has {} images, and there are {} to test with: give fewer, --set eval.batch=N",
        data.batch(), data.images());
  }
  std::int64_t left = std::min(whole, wanted);
  runtime::Batch batch;
  return {file, runtime::measure_streams(module, *engine, [&](runtime::TensorMap& arguments) {
            if (left-- == 0) return false;
            loader->next(batch);
            arguments = runtime::take_inputs(module.function("streams"), batch);
            return true;
          })};
}

void print_object(const MeasuredRun& run) {
  nlohmann::ordered_json joins = nlohmann::ordered_json::array();
  for (const runtime::JoinStream& join : run.statistics.joins) {
    joins.push_back({{"name", join.join},
                     {"stream", join.stream},
                     {"branch", join.branch},
                     {"parallel", join.parallel},
                     {"orthogonal", join.perpendicular()},
                     {"cosine", join.cosine}});
  }
  nlohmann::ordered_json object = {
      {"weights", run.weights}, {"images", run.statistics.images}, {"joins", std::move(joins)}};
  object["features"] = run.statistics.features;
  if (run.statistics.features > 0) object["effective_rank"] = run.statistics.effective_rank;
  print_json(object);
}

void print_table(const MeasuredRun& run) {
  const runtime::StreamStatistics& statistics = run.statistics;
  print("streams of {}, means over {} test images\n", run.weights, statistics.images);
  Table table(1);
  table.add({"join", "|x|^2", "|f|^2", "|f par|^2", "|f orth|^2", "cos(x, f)"});
  for (const runtime::JoinStream& join : statistics.joins) {
    std::vector<std::string> line = {join.join};
    for (const double number : {join.stream, join.branch, join.parallel, join.perpendicular()})
      line.push_back(fmt::format("{:.4g}", number));
    line.push_back(fmt::format("{:.4f}", join.cosine));
    table.add(std::move(line));
  }
  table.print();
  if (statistics.features == 0) {
    print("no effective rank: the network ends in no product of one vector an image\n");
    return;
  }
  const auto most = static_cast<double>(std::min(statistics.features, statistics.images));
  print("features: {} numbers an image, effective rank {:.4f} of at most {:.4f}\n", statistics.features,
        statistics.effective_rank, std::log(most));
}

}  // namespace

void analyze_run(const AnalyzeRunRequest& request) {
  const MeasuredRun run = measure(request);
  request.json ? print_object(run) : print_table(run);
}

}  // namespace rewire::cli
