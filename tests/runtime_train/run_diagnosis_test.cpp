// [diagnose] over a run: when its lines come, that they are the same whoever computes them and however often the run is
// stopped, and that the steps do not notice.
#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "ir/text.h"
#include "models/model.h"
#include "programs/diagnose.h"
#include "runtime/io/files.h"
#include "runtime/run/run_folder.h"
#include "runtime/train/run_plan.h"
#include "tests/runtime_train/step_watch.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using Lines = std::vector<nlohmann::json>;

/// 25 test images; two epochs of 4 steps.
TrainRequest diagnosed_request(std::int64_t every, const std::vector<std::string>& settings = {}) {
  std::vector<std::string> all = {"diagnose.every=" + std::to_string(every)};
  all.insert(all.end(), settings.begin(), settings.end());
  TrainRequest request;
  request.recipe = parse_recipe(R"(
[model]
name = "vit_tiny_28"
dim = 12
depth = 2
heads = 2
patch = 7
dropout = 0.1
drop_path = 0.2
[data]
format = "synthetic"
count = 25
[transforms]
horizontal_flip = true
[train]
batch = 6
epochs = 2
log_every = 3
[eval]
batch = 20
)",
                                "test.toml", all);
  request.engine = engine_names().front();
  request.choices.autotune = false;
  ir::Selection model{"vit"};
  model.set("dim", 12).set("depth", 2).set("heads", 2).set("patch", 7);
  model.set("dropout", 0.1).set("drop_path", 0.2);
  request.network.forward = [model](std::int64_t batch) { return models::build(model, batch); };
  return request;
}

Lines diagnose_lines(const std::string& run) {
  Lines lines;
  std::ifstream file(run + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    nlohmann::json json = nlohmann::json::parse(line);
    if (json.at("kind") == "diagnose") lines.push_back(std::move(json));
  }
  return lines;
}

std::vector<std::int64_t> steps_of(const Lines& lines) {
  std::vector<std::int64_t> steps;
  for (const nlohmann::json& line : lines) steps.push_back(line.at("step"));
  return steps;
}

TEST_CASE(
    "A run is diagnosed before its first step and behind every so many, and its steps are the same without") {
  const test::TemporaryFolder folder;
  const std::string run = folder.file("run"), plain = folder.file("plain");
  StepWatch watch;
  train(diagnosed_request(3), run, OutFolder::exact, watch);
  CHECK(std::ranges::count(watch.compiled, "diagnose") == 1);
  const Lines lines = diagnose_lines(run);
  CHECK(steps_of(lines) == std::vector<std::int64_t>{0, 3, 6});
  CHECK(lines[1].at("epoch") == 0);
  CHECK(lines[2].at("epoch") == 1);
  CHECK(lines[0].at("diagnose.gamma") == 6);
  CHECK_FALSE(lines[1].contains("diagnose.gamma"));
  for (const nlohmann::json& line : lines) {
    for (const auto& [key, value] : line.items()) {
      CAPTURE(key);
      if (key != "kind") CHECK(std::isfinite(value.get<double>()));
    }
    for (const char* name : {"blocks.0.attn.cosine", "blocks.1.mlp.stream", "blocks.1.effective_rank",
                             "blocks.0.gradient_norm", "blocks.0.attention_entropy", "gradient_norm"})
      CHECK(line.contains(std::string("diagnose.") + name));
  }
  CHECK(lines[0].at("diagnose.blocks.0.attn.cosine") != lines[2].at("diagnose.blocks.0.attn.cosine"));

  StepWatch unwatched;
  train(diagnosed_request(0), plain, OutFolder::exact, unwatched);
  CHECK(std::ranges::count(unwatched.compiled, "diagnose") == 0);
  CHECK(diagnose_lines(plain).empty());
  CHECK(read_file(run + "/weights.safetensors") == read_file(plain + "/weights.safetensors"));
}

TEST_CASE("The step's program is the same to the byte with and without [diagnose]") {
  const auto text_of = [](const TrainRequest& request) {
    const RunPlan plan(request);
    ir::Module module = plan.programs.module;
    CHECK((module.find_function("diagnose") != nullptr) == (request.recipe.diagnose.every > 0));
    std::erase_if(module.functions, [](const ir::Function& function) { return function.name == "diagnose"; });
    return ir::print(module);
  };
  for (const char* accumulate : {"train.accumulate=1", "train.accumulate=2"})
    CHECK(text_of(diagnosed_request(7, {accumulate})) == text_of(diagnosed_request(0, {accumulate})));
}

TEST_CASE("A run that is stopped and resumed has the lines of one that was not, on any number of threads",
          "[whole]") {
  const test::TemporaryFolder folder;
  for (const std::int64_t stop_at : {3, 4, 5}) {
    for (const std::int64_t accumulate : {1, 2}) {
      CAPTURE(stop_at, accumulate);
      const std::string name = std::to_string(10 * stop_at + accumulate);
      const std::string whole = folder.file("whole" + name), parts = folder.file("parts" + name);
      const std::vector<std::string> settings = {
          "train.accumulate=" + std::to_string(accumulate), "train.epochs=" + std::to_string(2 * accumulate),
          "diagnose.what=streams+rank+gradients+conditioning", "diagnose.images=11"};
      StepWatch seen, watched;
      TrainRequest one = diagnosed_request(2, settings);
      one.recipe.train.threads = 1;
      train(one, whole, OutFolder::exact, seen);
      TrainRequest stopped = diagnosed_request(2, settings);
      stopped.recipe.train.threads = 3;
      stopped.stop_signal = [&] { return watched.step >= stop_at ? 15 : 0; };
      CHECK(train(stopped, parts, OutFolder::exact, watched).stopped_by == 15);
      CHECK(resume_training(diagnosed_request(2, settings), parts, watched).stopped_by == 0);
      CHECK(diagnose_lines(parts) == diagnose_lines(whole));
      CHECK(diagnose_lines(whole).size() == 5);
      CHECK(diagnose_lines(whole)[0].contains("diagnose.blocks.0.attn.condition"));
    }
  }
}

TEST_CASE("A run that is stopped before its first step has no line, and leaves nothing") {
  const test::TemporaryFolder folder;
  TrainRequest stopped = diagnosed_request(1);
  StepWatch seen;
  int asked = 0;
  stopped.stop_signal = [&] { return ++asked >= 2 ? 15 : 0; };
  CHECK(train(stopped, folder.file("run"), OutFolder::exact, seen).stopped_by == 15);
  CHECK(folder.entries() == 0);
}

TEST_CASE("A run can be diagnosed by its conditioning alone, and in bf16") {
  const test::TemporaryFolder folder;
  StepWatch seen;
  const std::string run = folder.file("run"), narrow = folder.file("narrow");
  train(diagnosed_request(4, {"diagnose.what=conditioning"}), run, OutFolder::exact, seen);
  CHECK(std::ranges::count(seen.compiled, "diagnose") == 0);
  const Lines lines = diagnose_lines(run);
  CHECK(steps_of(lines) == std::vector<std::int64_t>{0, 4, 8});
  CHECK(lines[1].at("diagnose.blocks.0.value_output_condition") > 1);
  CHECK_FALSE(lines[1].contains("diagnose.blocks.0.attn.stream"));
  train(diagnosed_request(4, {"train.dtype=bf16", "train.stream_dtype=bf16"}), narrow, OutFolder::exact,
        seen);
  CHECK(diagnose_lines(narrow)[2].at("diagnose.blocks.1.mlp.stream") > 0);
}

TEST_CASE(
    "Images that there are not, or that a network does not take, are refused before anything is compiled") {
  const auto refusal = [](const TrainRequest& request) {
    return test::message_of<UserError>([&] { RunPlan plan(request); });
  };
  CHECK(refusal(diagnosed_request(1, {"diagnose.images=26"})) ==
        "diagnose.images=26: synthetic data has 25 test images: set at most that many");
  TrainRequest fixed = diagnosed_request(1, {"diagnose.images=5", "train.batch=6", "eval.batch=6"});
  fixed.network.forward = [forward = fixed.network.forward](std::int64_t) { return forward(6); };
  CHECK(refusal(fixed) == "diagnose.images=5: the network only takes batches of 6 images: set that, or 0");
  fixed.recipe.diagnose.images = 0;
  CHECK(RunPlan(fixed).diagnosed_images == 6);
  CHECK(RunPlan(diagnosed_request(1)).diagnosed_images == 25);
}

}  // namespace
}  // namespace rewire::runtime
