// An objective and an optimizer that Rewire has not got, each in the few lines that it takes, trained through
// the whole runtime: what evaluates, logs, saves and resumes knows neither.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "programs/objective.h"
#include "programs/optimizer.h"
#include "programs/sums.h"
#include "runtime/io/files.h"
#include "runtime/network/initialise.h"
#include "runtime/train/trainer.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::programs {
namespace {

using ir::Builder;
using ir::Opcode;
using ir::Value;

/// Regression on pixels: forward(image) -> (pixels), as its image is but for a factor.
class Pixels final : public Objective {
 public:
  explicit Pixels(double target) : target_(target) {}

  Inputs inputs(const ir::Module& module) const override {
    const ir::Function& forward = module.function("forward");
    return {{"image", forward.type(forward.argument("image"))}};
  }
  Trained train(Builder& b, Network& network, const NamedValues& inputs) const override {
    const Value error = errors(b, network, inputs);
    const Value loss = mean_all(b, b.mul(error, error));
    // Over the elements, so that a training metric has a denominator too.
    const auto count = static_cast<double>(b.type(error).elements());
    return {
        loss,
        {{{"mae", "magnitudes", "elements"}, sum_all(b, b.unary(Opcode::abs, error)), b.constant(count)}}};
  }
  std::vector<Measured> evaluate(Builder& b, Network& network, const NamedValues& inputs,
                                 Value weight) const override {
    const Value error = b.mul(errors(b, network, inputs), b.reshape(weight, {b.shape(weight)[0], 1, 1, 1}));
    const Value count = sum_all(b, weight);
    return {{{"loss", "squares", "count"}, sum_all(b, b.mul(error, error)), count},
            {{"mae", "magnitudes", "count"}, sum_all(b, b.unary(Opcode::abs, error)), count}};
  }

 private:
  Value errors(Builder& b, Network& network, const NamedValues& inputs) const {
    const Value image = inputs.at("image");
    return b.sub(network.call("forward", {{"image", image}}).at("pixels"), b.mul(image, target_));
  }
  double target_;
};

const ObjectiveRow kPixels{"pixels",
                           "squared error of 'pixels'",
                           {{"loss", "loss", Shown::number}, {"mae", "mean error", Shown::percent}},
                           {ir::float_parameter("target", 2, "factor of the pixels that are asked for")},
                           [](const ir::Attributes& values) -> std::unique_ptr<Objective> {
                             return std::make_unique<Pixels>(values.get_double("target"));
                           }};

/// Steps along g / |row|, the norm of each row of the gradients' sum as it was at the last refresh: a state
/// of the weight's shape, one of a row each, and a program that runs every three updates.
class RowNorm final : public Optimizer {
 public:
  std::vector<StateSpec> states(const ir::Parameter& weight) const override {
    const ir::TensorType& type = weight.type;
    return {{"sum", type}, {"norm", {type.dtype, {type.shape.at(0)}}, {ir::InitKind::ones}}};
  }
  void begin(Builder& b, const std::vector<Trainable>&, const StepScalars& step) override {
    rate_ = b.cast(step.lr, ir::DType::f32);
  }
  Updated update(Builder& b, const Trainable& w, const std::vector<Value>& states) override {
    const std::int64_t rows = b.shape(w.value).at(0);
    ir::Shape column(b.shape(w.value).size(), 1);
    column[0] = rows;
    const Value step = b.div(w.gradient, b.reshape(states[1], column));
    return {b.sub(w.value, b.mul(step, rate_)), {b.add(states[0], w.gradient), states[1]}};
  }
  std::int64_t period() const override { return 3; }
  std::vector<std::vector<Value>> refresh(Builder& b, const std::vector<Trainable>& weights,
                                          const std::vector<std::vector<Value>>& states, bool) override {
    std::vector<std::vector<Value>> next;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const Value sum = states[i][0], norm = states[i][1];
      ir::Ints axes;
      for (std::int64_t axis = 1; axis < b.type(sum).rank(); ++axis) axes.push_back(axis);
      Value squares = b.mul(sum, sum);
      if (!axes.empty()) squares = b.sum(squares, axes);
      next.push_back({sum, b.add(b.unary(Opcode::sqrt, b.reshape(squares, b.shape(norm))), 1)});
    }
    return next;
  }

 private:
  Value rate_;
};

const OptimizerRow kRowNorm{
    "row_norm", "steps of one length a row", with_common_parameters({}),
    [](const ir::Attributes&) -> std::unique_ptr<Optimizer> { return std::make_unique<RowNorm>(); }};

void add_residents() {
  static const bool added = [] {
    add_objective(kPixels);
    add_optimizer(kRowNorm);
    return true;
  }();
  static_cast<void>(added);
}

/// forward(image [batch, 1, 4, 4]) -> (pixels = image * w), w [1, 1, 4, 4].
ir::Module scaled_image(std::int64_t batch) {
  ir::Module module;
  module.name = "scaled";
  ir::Parameter w;
  w.name = "w";
  w.type = {ir::DType::f32, {1, 1, 4, 4}};
  w.init = {ir::InitKind::normal, 0.1};
  module.add_parameter(w);
  ir::Function forward;
  forward.name = "forward";
  Builder b(module, forward);
  const Value image = b.argument("image", {ir::DType::f32, {batch, 1, 4, 4}});
  b.result("pixels", b.mul(image, b.param("w")));
  module.functions.push_back(std::move(forward));
  return module;
}

/// A classifier's programs with that optimizer.
ir::Module row_norm_programs() {
  add_residents();
  ir::Module module = runtime::linear_model(2, 3, 2);
  TrainOptions options;
  options.optimizer = {"row_norm"};
  add_step_program(module, options);
  return module;
}

class Silent final : public runtime::TrainObserver {
 public:
  void started(const runtime::RunFacts&) override {}
  void compiling(const std::string& program) override { compiled.push_back(program); }
  void stepped(const runtime::TrainView& view) override { step = view.position.step; }
  void logged(const runtime::TrainView& view) override { line = runtime::metrics_text(view.metrics); }
  void evaluating(std::int64_t, std::int64_t) override {}
  void epoch_done(const runtime::EpochReport&) override {}
  void replaying(const std::string&) override {}

  std::vector<std::string> compiled;
  std::int64_t step = 0;
  std::string line;
};

runtime::TrainRequest request(const std::string& engine, std::int64_t accumulate = 1) {
  runtime::TrainRequest request;
  request.recipe = runtime::parse_recipe(R"(
[data]
format = "synthetic"
count = 70
[objective]
name = "pixels"
target = 0.5
[optimizer]
name = "row_norm"
lr = 5.0
[train]
batch = 8
epochs = 2
log_every = 2
[eval]
batch = 16
)",
                                         "test.toml");
  request.recipe.train.accumulate = accumulate;
  request.engine = engine;
  request.choices.autotune = false;
  request.network.forward = scaled_image;
  return request;
}

std::vector<nlohmann::json> lines_of(const std::string& run) {
  const std::vector<std::byte> bytes = runtime::read_file(run + "/metrics.jsonl");
  std::istringstream text(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST_CASE("An objective that Rewire has not got is trained, logged and evaluated by its own metrics") {
  add_residents();
  const test::TemporaryFolder folder;
  for (const std::int64_t accumulate : {1, 2}) {
    CAPTURE(accumulate);
    Silent seen;
    const std::string run = folder.file(std::to_string(accumulate));
    const runtime::TrainResult result = runtime::train(request(runtime::engine_names().front(), accumulate),
                                                       run, runtime::OutFolder::exact, seen);
    const std::vector<nlohmann::json> lines = lines_of(run);
    const nlohmann::json& first = lines.front();
    const auto last = std::ranges::find(lines.rbegin(), lines.rend(), "train",
                                        [](const nlohmann::json& line) { return line.at("kind"); });
    REQUIRE(last != lines.rend());
    for (const char* name : {"loss", "mae"})
      CHECK(last->at(name).get<double>() < first.at(name).get<double>());
    CHECK_FALSE(lines.front().contains("top1"));
    CHECK(lines.back().at("kind") == "eval");
    CHECK(lines.back().at("samples") == 70);
    REQUIRE(result.evaluation.has_value());
    CHECK(result.evaluation->metrics.at(1).name == "mae");
    CHECK(result.evaluation->loss() == lines.back().at("loss").get<double>());
    CHECK(seen.line.starts_with("loss "));
    CHECK(seen.line.find("mean error ") != std::string::npos);
  }
}

TEST_CASE(
    "A state of another shape starts by its Init, and is refreshed every so many steps, resumed or not") {
  add_residents();
  const test::TemporaryFolder folder;
  Silent seen;
  const std::string whole = folder.file("whole"), stopped = folder.file("stopped");
  const std::string engine = runtime::engine_names().front();
  runtime::train(request(engine), whole, runtime::OutFolder::exact, seen);
  CHECK(seen.step == 16);
  for (const char* program : {"refresh_first", "refresh"})
    CHECK(std::ranges::find(seen.compiled, program) != seen.compiled.end());
  for (const std::int64_t at : {1, 3, 4, 5}) {  // at the first refresh, before, at and behind another
    CAPTURE(at);
    Silent watched;
    runtime::TrainRequest first = request(engine);
    first.stop_signal = [&] { return watched.step >= at ? 15 : 0; };
    const std::string run = stopped + std::to_string(at);
    CHECK(runtime::train(first, run, runtime::OutFolder::exact, watched).position.step == at);
    runtime::resume_training(request(engine), run, watched);
    CHECK(runtime::read_file(run + "/weights.safetensors") ==
          runtime::read_file(whole + "/weights.safetensors"));
  }
}

TEST_CASE("A refresh is the optimizer's program: it changes its states, and nothing where the flag is down") {
  const ir::Module module = row_norm_programs();
  CHECK(programs::refresh_period({"row_norm"}) == 3);
  CHECK(module.find_parameter("row_norm.norm.w")->type == ir::TensorType{ir::DType::f32, {2}});
  CHECK(module.find_parameter("row_norm.norm.w")->kind == ir::StateKind::moment);
  ir::EvalState state = runtime::start(module, {{"row_norm.sum.w", {3, 4, 0, 0, 0, 12}}});
  runtime::call(module, "refresh", {}, state);
  CHECK(state.tensors.at("row_norm.norm.w").data == std::vector<double>{6, 13});
  CHECK(state.tensors.at("row_norm.sum.w").data == std::vector<double>{3, 4, 0, 0, 0, 12});
  state.tensors.at("train.finite").data = {0};
  state.tensors.at("row_norm.sum.w").data = {0, 0, 0, 0, 0, 0};
  runtime::call(module, "refresh", {}, state);
  CHECK(state.tensors.at("row_norm.norm.w").data == std::vector<double>{6, 13});
}

TEST_CASE("A refresh whose states would not be finite changes nothing and lets the flag fall") {
  const ir::Module module = row_norm_programs();
  ir::EvalState state = runtime::start(module, {{"row_norm.sum.w", {3, 4, 0, 0, std::nan(""), 12}}});
  CHECK(runtime::call(module, "refresh", {}, state).at("finite")[0] == 0);
  CHECK(state.tensors.at("row_norm.norm.w").data == std::vector<double>{1, 1});
  CHECK(state.tensors.at("train.finite").scalar() == 0);
}

TEST_CASE("What a text declares of the run's own state is of the kind that the run gives it") {
  ir::Module module = runtime::linear_model(2, 3, 2);
  module.add_state("train.finite", {ir::DType::i1, {}}, ir::StateKind::counter, {ir::InitKind::ones});
  add_step_program(module, {});
  CHECK(module.find_parameter("train.finite")->kind == ir::StateKind::flag);
}

TEST_CASE("Metrics are f32 whatever they are computed in, and categories are the objective's word") {
  ir::Module module = runtime::linear_model(2, 3, 2);
  module.attributes.set("categories.image", std::string("x"));
  const Metrics metrics = add_step_program(module, {});
  CHECK(categories(module, "image") == 0);
  CHECK(categories(module, "label") == 2);
  for (const Metric& metric : metrics) {
    const ir::Function& step = module.function("step");
    CHECK(step.type(step.result(metric.numerator)) == ir::TensorType{ir::DType::f32, {}});
  }
}

TEST_CASE(
    "A network that an objective cannot be had of, and a forward that updates, are refused in one line") {
  add_residents();
  const auto refusal = [](ir::Module module, const ir::Selection& objective) {
    TrainOptions options;
    options.objective = objective;
    return test::message_of<UserError>([&] { add_step_program(module, options); });
  };
  CHECK(refusal(scaled_image(2), {"supervised"}) ==
        "the model has no result 'logits'; the objective supervised needs one of shape [batch, classes]");
  CHECK(refusal(scaled_image(2), {"pixel"}) ==
        fmt::format("objective.name=pixel is unknown: it takes one of {} (did you mean 'pixels'?)",
                    fmt::join(ir::row_names(objectives()), "|")));
  ir::Module updates = scaled_image(2);
  updates.add_state("seen", {ir::DType::f32, {}}, ir::StateKind::statistic);
  ir::Function& forward = updates.function("forward");
  Builder b(updates, forward);
  const Value next[] = {b.add(b.param("seen"), 1)};
  b.emit_all(Opcode::update, next, {{"name", std::string("seen")}});
  CHECK(refusal(updates, {"pixels"}) ==
        "forward updates 'seen' itself, even if the step is not finite; return the next value as its result "
        "'update.seen'");
}

}  // namespace
}  // namespace rewire::programs
