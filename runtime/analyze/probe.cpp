#include "runtime/analyze/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/philox.h"
#include "ir/verify.h"
#include "models/probe.h"
#include "programs/programs.h"
#include "runtime/data/source.h"
#include "runtime/exec/make_engine.h"
#include "runtime/network/weights.h"

namespace rewire::runtime {
namespace {

constexpr const char* kPredict = "predict";

/// Sums of a program's results, by name.
class ProbeSums {
 public:
  explicit ProbeSums(programs::Metrics metrics) : metrics_(std::move(metrics)) {}

  void add(const TensorMap& results) {
    for (const programs::Metric& metric : metrics_) {
      const auto number = [&](const std::string& name) {
        return to_double(results.find(name)->second).data.at(0);
      };
      auto& [numerator, denominator] = sums_[metric.name];
      numerator += number(metric.numerator);
      denominator += metric.denominator.empty() ? metric.count : number(metric.denominator);
    }
  }
  /// Returns 0 for a value that the objective does not report, and for a mean over nothing.
  double mean(const std::string& name) const {
    const auto found = sums_.find(name);
    return found == sums_.end() || found->second.second == 0 ? 0 : found->second.first / found->second.second;
  }

 private:
  programs::Metrics metrics_;
  std::map<std::string, std::pair<double, double>> sums_;
};

/// Adds the program predict: forward -> the class of each pixel, i32 [batch, height, width].
void add_predict_program(ir::Module& module) {
  ir::Function function = module.function("forward");
  function.name = kPredict;
  const ir::Value logits = function.result("logits");
  function.results.clear();
  ir::Builder b(module, function);
  const ir::Shape shape = b.shape(logits);
  const ir::Value best = b.emit(ir::Opcode::argmax, {logits}, {{"axis", std::int64_t{1}}});
  b.result("class", b.reshape(best, {shape[0], shape[2], shape[3]}));
  module.functions.push_back(std::move(function));
}

class ProbeRun {
 public:
  ProbeRun(const std::function<ir::Module(std::int64_t batch)>& network, const std::string& objective,
           const std::vector<ProbeSet>& train, const ProbeTraining& training)
      : train_(train), training_(training) {
    smallest_ = train.front().images;
    for (const ProbeSet& set : train) smallest_ = std::min(smallest_, set.images);
    batch_ = std::min(training.batch, smallest_);
    module_ = network(batch_);
    programs::TrainOptions options;
    options.objective = {objective};
    options.optimizer = {training.optimizer, {{"lr", training.lr}, {"weight_decay", training.weight_decay}}};
    options.schedule = {"cosine", {{"warmup_epochs", training.warmup}}};
    options.timeline = {static_cast<double>(steps()), steps() * training.epochs};
    step_metrics_ = programs::add_step_program(module_, options);
    eval_metrics_ = programs::add_eval_program(module_, options.objective);
    if (objective == "segmentation") add_predict_program(module_);
    ir::verify(module_);
    engine_ = make_engine(training.engine, module_, {.threads = training.threads});
    start_state(*engine_, module_, fresh_weights(module_, {}, training.seed), training.seed);
  }

  /// Returns the mean loss of the last epoch's steps.
  double train() {
    const ir::PhiloxStream draws{training_.seed, 0, ir::stream_hash("probe.set")};
    double loss = 0;
    for (std::int64_t epoch = 0; epoch < training_.epochs; ++epoch) {
      const ProbeSet& set = train_[draws.bits(static_cast<std::uint64_t>(epoch)) % train_.size()];
      const std::vector<std::uint32_t> order = epoch_order(set.images, training_.seed, epoch);
      ProbeSums sums(step_metrics_);
      for (std::int64_t i = 0; i < steps(); ++i) {
        const TensorMap results =
            engine_->run("step", inputs("step", set,
                                        std::span(order).subspan(static_cast<std::size_t>(i * batch_),
                                                                 static_cast<std::size_t>(batch_))));
        if (to_double(results.at("finite")).data.at(0) == 0)
          user_error(
              "the probe diverges in step {}: its loss or a gradient is not finite; lower the learning rate "
              "{}",
              epoch * steps() + i + 1, training_.lr);
        sums.add(results);
      }
      loss = sums.mean("loss");
    }
    return loss;
  }

  ProbeSums evaluate(const ProbeSet& set) {
    ProbeSums sums(eval_metrics_);
    in_order(set, [&](std::span<const std::uint32_t> rows, std::int64_t count) {
      TensorMap arguments = inputs("eval", set, rows);
      HostTensor weight({ir::DType::f32, {batch_}});
      std::fill_n(weight.as<float>().begin(), count, 1.0F);
      arguments.emplace("weight", std::move(weight));
      sums.add(engine_->run("eval", arguments));
    });
    return sums;
  }

  /// Counts pixels by label and prediction.
  std::vector<std::int64_t> confusion(const ProbeSet& set, std::size_t classes) {
    std::vector<std::int64_t> counts(classes * classes);
    in_order(set, [&](std::span<const std::uint32_t> rows, std::int64_t count) {
      const ir::Tensor predicted = to_double(engine_->run(kPredict, inputs(kPredict, set, rows)).at("class"));
      const std::size_t pixels = predicted.data.size() / static_cast<std::size_t>(batch_);
      for (std::size_t i = 0; i < pixels * static_cast<std::size_t>(count); ++i) {
        const std::int64_t label = set.labels[rows[0] * pixels + i];
        if (label < 0 || label >= static_cast<std::int64_t>(classes)) continue;
        ++counts[static_cast<std::size_t>(label) * classes + static_cast<std::size_t>(predicted.data[i])];
      }
    });
    return counts;
  }

 private:
  std::int64_t steps() const { return smallest_ / batch_; }

  /// Calls `each` for the images of a set, batch by batch. The set's first image fills up the last batch.
  void in_order(
      const ProbeSet& set,
      const std::function<void(std::span<const std::uint32_t> rows, std::int64_t count)>& each) const {
    std::vector<std::uint32_t> rows(static_cast<std::size_t>(batch_));
    for (std::int64_t first = 0; first < set.images; first += batch_) {
      const std::int64_t count = std::min(batch_, set.images - first);
      for (std::int64_t i = 0; i < batch_; ++i)
        rows[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(first + (i < count ? i : 0));
      each(rows, count);
    }
  }

  TensorMap inputs(const char* program, const ProbeSet& set, std::span<const std::uint32_t> rows) const {
    TensorMap arguments;
    const ir::Function& function = module_.function(program);
    const auto take = [&](const char* name, auto from) {
      const ir::Value argument = function.argument(name);
      if (!argument) return;
      HostTensor tensor(function.type(argument));
      using T = std::remove_const_t<typename decltype(from)::element_type>;
      const std::span<T> into = tensor.as<T>();
      const std::size_t width = into.size() / rows.size();
      for (std::size_t i = 0; i < rows.size(); ++i)
        std::ranges::copy(from.subspan(rows[i] * width, width),
                          into.begin() + static_cast<std::ptrdiff_t>(i * width));
      arguments.emplace(name, std::move(tensor));
    };
    take("image", set.rows);
    take("label", set.labels);
    return arguments;
  }

  const std::vector<ProbeSet>& train_;
  const ProbeTraining& training_;
  std::int64_t smallest_ = 0, batch_ = 0;
  ir::Module module_;
  programs::Metrics step_metrics_, eval_metrics_;
  std::unique_ptr<Engine> engine_;
};

/// Returns how many numbers an image has.
std::int64_t numbers_of(const ProbeSet& set) {
  return std::ssize(set.rows) / set.images;
}

}  // namespace

ProbeOutcome train_linear_probe(const std::vector<ProbeSet>& train, const ProbeSet& test,
                                std::int64_t classes, bool norm, const ProbeTraining& training) {
  const models::LinearProbe probe{numbers_of(test), classes, norm};
  ProbeRun run([&](std::int64_t batch) { return models::linear_probe(probe, batch); }, "supervised", train,
               training);
  ProbeOutcome outcome{.train_loss = run.train()};
  const ProbeSums sums = run.evaluate(test);
  outcome.loss = sums.mean("loss");
  outcome.top1 = sums.mean("top1");
  if (programs::tells_top5(classes)) outcome.top5 = sums.mean("top5");
  return outcome;
}

ProbeOutcome train_dense_probe(const ProbeSet& train, const ProbeSet& test, std::int64_t classes, bool norm,
                               const DenseShape& shape, const ProbeTraining& training) {
  const models::DenseProbe probe{.width = numbers_of(test) / (shape.rows * shape.columns),
                                 .classes = classes,
                                 .rows = shape.rows,
                                 .columns = shape.columns,
                                 .height = shape.height,
                                 .image_columns = shape.image_columns,
                                 .norm = norm};
  const std::vector<ProbeSet> sets = {train};
  ProbeRun run([&](std::int64_t batch) { return models::dense_probe(probe, batch); }, "segmentation", sets,
               training);
  ProbeOutcome outcome{.train_loss = run.train()};
  const ProbeSums sums = run.evaluate(test);
  outcome.loss = sums.mean("loss");
  outcome.pixel_accuracy = sums.mean("pixel_accuracy");
  const auto count = static_cast<std::size_t>(classes);
  outcome.mean_iou = mean_iou(run.confusion(test, count), count);
  return outcome;
}

double mean_iou(std::span<const std::int64_t> confusion, std::size_t classes) {
  double sum = 0, occurring = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    std::int64_t labelled = 0, predicted = 0;
    for (std::size_t other = 0; other < classes; ++other) {
      labelled += confusion[c * classes + other];
      predicted += confusion[other * classes + c];
    }
    const std::int64_t both = confusion[c * classes + c], either = labelled + predicted - both;
    if (either == 0) continue;
    sum += static_cast<double>(both) / static_cast<double>(either);
    ++occurring;
  }
  return occurring == 0 ? 0 : sum / occurring;
}

}  // namespace rewire::runtime
