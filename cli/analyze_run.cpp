#include "cli/analyze_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/analyze_print.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "programs/diagnose.h"
#include "runtime/exec/make_engine.h"
#include "runtime/measure/diagnose.h"
#include "runtime/network/data_feed.h"
#include "runtime/network/run_programs.h"
#include "runtime/network/weights.h"
#include "runtime/run/run_folder.h"
#include "runtime/run/run_weights.h"
#include "runtime/run/trained_network.h"

namespace rewire::cli {
namespace {

constexpr const char* kDiagnose = "diagnose";

/// Measures the checkpoints of one run. Programs that several checkpoints share are compiled once.
class RunMeter {
 public:
  explicit RunMeter(const AnalyzeRunRequest& request)
      : request_(request),
        folder_(runtime::RunFolder::open(request.network.model)),
        network_(runtime::resolve_network(runtime::request_of_run(request.network, folder_))),
        source_(runtime::network_source(network_)),
        recipe_(recipe_of(network_, source_, request.images)),
        data_(recipe_, runtime::Split::test, runtime::network_face(source_.forward(1), recipe_.objective)) {
    // Whole batches only: the last batch of a pass is padded.
    const std::int64_t whole = data_.count() / data_.batch(),
                       wanted = (request.images + data_.batch() - 1) / data_.batch();
    if (whole == 0) {
      user_error(
          "analyze: a batch has {} images, but there are {} test images: use a smaller --set eval.batch=N",
          data_.batch(), data_.count());
    }
    batches_ = std::min(whole, wanted);
  }

  std::vector<MeasuredRun> measure_all() {
    std::vector<std::string> names = {request_.checkpoint};
    if (request_.checkpoint == "all") {
      names.clear();
      for (const std::string& path : folder_.checkpoints())
        names.push_back(std::filesystem::path(path).filename().string());
      if (names.empty()) user_error("analyze: {} has no checkpoints", folder_.path());
    }
    std::vector<MeasuredRun> runs;
    for (const std::string& name : names) runs.push_back(measure(name));
    return runs;
  }

 private:
  /// Limits the batch to the number of images, if the network takes any batch size.
  static runtime::Recipe recipe_of(const runtime::Network& network, const runtime::NetworkSource& source,
                                   std::int64_t images) {
    runtime::Recipe recipe = network.recipe;
    if (runtime::takes_any_batch(source)) recipe.eval.batch = std::min(recipe.eval.batch, images);
    return recipe;
  }

  MeasuredRun measure(const std::string& checkpoint) {
    runtime::RunWeights weights = runtime::find_run_weights(
        folder_, checkpoint, request_.averages ? runtime::WeightsOf::averages : runtime::WeightsOf::steps);
    MeasuredRun run;
    run.weights = weights.file;
    std::int64_t epoch = recipe_.train.epochs - 1;
    if (weights.checkpoint) {
      run.name = std::filesystem::path(weights.file).parent_path().filename().string();
      run.position = weights.checkpoint->position;
      epoch = runtime::last_epoch(run.position);
    }
    prepare(epoch);
    const runtime::WeightsOrigin origin = runtime::origin_of(network_, epoch);
    const runtime::TensorMap read = runtime::read_run_weights(
        *module_, weights, {.origin = &origin, .other_strategy = network_.other_strategy});
    runtime::start_state(*engine_, *module_, read, static_cast<std::uint64_t>(recipe_.seed));
    run.network = module_->function(kDiagnose);
    run.images = batches_ * data_.batch();
    run.values = run_batches();
    if (request_.conditioning) add_conditioning(epoch, read, run);
    return run;
  }

  /// Compiles the program of the network as it is in this epoch, unless it is the current one.
  void prepare(std::int64_t epoch) {
    ir::Module module =
        runtime::make_eval_module(source_, recipe_,
                                  {.eval_batch = data_.batch(), .competing = data_.competing()}, epoch)
            .module;
    std::erase_if(module.functions, [](const ir::Function& function) { return function.name == "eval"; });
    programs::add_diagnose_program(
        module,
        {recipe_.objective, programs::parse_diagnostics(programs::default_diagnostics(), "diagnose.what")});
    ir::verify(module);
    std::string text = ir::print(module);
    if (text == text_) return;
    text_ = std::move(text);
    meter_.reset();
    engine_.reset();
    module_ = std::move(module);
    engine_ =
        runtime::make_engine(request_.engine, *module_, {.threads = static_cast<int>(recipe_.train.threads)});
  }

  runtime::MetricValues run_batches() {
    const ir::Function& program = module_->function(kDiagnose);
    runtime::DiagnoseMeans means(program);
    const std::unique_ptr<runtime::Loader> loader = data_.load();
    runtime::Batch batch;
    for (std::int64_t i = 0; i < batches_; ++i) {
      loader->next(batch);
      runtime::TensorMap arguments = runtime::take_inputs(program, batch);
      means.add(engine_->run(kDiagnose, arguments));
      runtime::put_back(std::move(arguments), batch);
    }
    return means.values();
  }

  void add_conditioning(std::int64_t epoch, const runtime::TensorMap& weights, MeasuredRun& run) {
    const ir::Module module =
        runtime::rewritten_forward(source_, std::min(data_.batch(), runtime::kConditionedImages), epoch);
    if (meter_ == nullptr) {
      meter_ = std::make_unique<runtime::ConditioningMeter>(
          module, runtime::ConditioningOptions{request_.engine, static_cast<std::uint64_t>(recipe_.seed),
                                               request_.largest_jacobian});
    }
    runtime::Batch batch;
    data_.load()->next(batch);
    const runtime::Conditioning conditioning =
        meter_->measure(weights, runtime::first_rows_of(module.function("forward"), batch.tensors));
    for (runtime::MetricValue& value : runtime::conditioning_values(conditioning))
      run.values.push_back(std::move(value));
    run.no_jacobian = conditioning.no_jacobian;
  }

  const AnalyzeRunRequest& request_;
  const runtime::RunFolder folder_;
  const runtime::Network network_;
  const runtime::NetworkSource source_;
  const runtime::Recipe recipe_;
  const runtime::DataFeed data_;
  std::int64_t batches_ = 0;
  std::string text_;
  std::optional<ir::Module> module_;
  std::unique_ptr<runtime::Engine> engine_;
  std::unique_ptr<runtime::ConditioningMeter> meter_;
};

}  // namespace

void analyze_run(const AnalyzeRunRequest& request) {
  const std::vector<MeasuredRun> runs = RunMeter(request).measure_all();
  const bool side_by_side = request.checkpoint == "all";
  if (request.json) return print_measured_object(runs, side_by_side);
  side_by_side ? print_measured_columns(runs, request.network.model) : print_measured_tables(runs.front());
  if (!runs.back().no_jacobian.empty()) {
    print("Jacobians are left out: {}; at most {} rows (--largest-jacobian)\n", runs.back().no_jacobian,
          request.largest_jacobian);
  }
}

}  // namespace rewire::cli
