// A run in this process, with all its threads: those that prepare batches, compile and compute. What they
// share is what ThreadSanitizer reads here.
#include "runtime/train/trainer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "models/model.h"
#include "runtime/io/files.h"
#include "runtime/io/safetensors.h"
#include "runtime/run/run_folder.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

class Silent final : public TrainObserver {
 public:
  void started(const RunFacts&) override {}
  void compiling(const std::string&) override { ++compiled; }
  void stepped(const TrainView& view) override { step = view.position.step; }
  void logged(const TrainView&) override {}
  void evaluating(std::int64_t, std::int64_t) override {}
  void epoch_done(const EpochReport& report) override {
    evaluated = evaluated || report.evaluation.has_value();
  }
  void replaying(const std::string&) override {}

  int compiled = 0;
  std::int64_t step = 0;
  bool evaluated = false;
};

/// Dropout, drop path, clipping and augmentation: whatever draws numbers or sums over threads.
TrainRequest request(std::int64_t threads, std::int64_t data_threads) {
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
count = 75
[transforms]
crop_padding = 2
horizontal_flip = true
[train]
batch = 6
epochs = 2
clip_norm = 1.0
log_every = 3
[eval]
batch = 20
)",
                                "test.toml");
  request.recipe.train.threads = threads;
  request.recipe.data.threads = data_threads;
  request.engine = engine_names().front();
  request.choices.autotune = false;
  ir::Selection model{"vit"};
  model.set("dim", 12).set("depth", 2).set("heads", 2).set("patch", 7);
  model.set("dropout", 0.1).set("drop_path", 0.2);
  request.network.forward = [model](std::int64_t batch) { return models::build(model, batch); };
  return request;
}

std::vector<std::byte> weights(const std::string& run) {
  return read_file(run + "/weights.safetensors");
}

TEST_CASE("a run by many threads, stopped and resumed, ends in the bits of one by one thread") {
  const test::TemporaryFolder folder;
  Silent seen;
  const std::string one = folder.file("one"), many = folder.file("many");
  train(request(1, 1), one, OutFolder::exact, seen);
  CHECK(seen.step == 24);
  CHECK(seen.evaluated);

  TrainRequest stopped = request(3, 3);
  Silent watched;
  stopped.stop_signal = [&] { return watched.step >= 17 ? 15 : 0; };
  const TrainResult half = train(stopped, many, OutFolder::exact, watched);
  CHECK(half.stopped_by == 15);
  CHECK(half.position.step == 17);
  CHECK_FALSE(std::filesystem::exists(many + "/weights.safetensors"));
  const TrainResult whole = resume_training(request(2, 2), many, watched);
  CHECK(whole.stopped_by == 0);
  CHECK(whole.position.step == 24);
  CHECK(weights(many) == weights(one));
}

TEST_CASE("a run stopped before its first step leaves nothing, and has compiled before it is asked to stop") {
  const test::TemporaryFolder folder;
  for (const int answer : {1, 2}) {  // before the folder is made, and before the first step
    TrainRequest stopped = request(1, 1);
    Silent seen;
    int asked = 0;
    stopped.stop_signal = [&] {
      CHECK(seen.compiled == 2);  // step and eval
      return ++asked >= answer ? 15 : 0;
    };
    const TrainResult result = train(stopped, folder.file("run"), OutFolder::exact, seen);
    CHECK(result.stopped_by == 15);
    CHECK(result.run.empty());
    CHECK(folder.entries() == 0);
  }
}

TensorMap tensors(const std::string& file) {
  return read_safetensors(file).tensors;
}

/// The lines of metrics.jsonl that are of evaluations.
std::vector<nlohmann::json> evaluations(const std::string& run) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(run + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    nlohmann::json json = nlohmann::json::parse(line);
    if (json.at("kind") == "eval") lines.push_back(std::move(json));
  }
  return lines;
}

/// The checkpoint that the file `best` or `last` names.
std::string named(const std::string& run, const std::string& name) {
  std::ifstream file(run + "/checkpoints/" + name);
  std::string checkpoint;
  file >> checkpoint;
  return checkpoint;
}

nlohmann::json progress_of(const std::string& run, const std::string& checkpoint) {
  std::ifstream file(run + "/checkpoints/" + named(run, checkpoint) + "/checkpoint.json");
  return nlohmann::json::parse(file);
}

TEST_CASE("averages are evaluated and kept beside the weights, and resumed to the same bits") {
  const test::TemporaryFolder folder;
  const auto averaging = [](std::int64_t threads, std::int64_t accumulate) {
    TrainRequest request = runtime::request(threads, threads);
    request.recipe.train.ema = 0.75;
    request.recipe.train.accumulate = accumulate;
    request.recipe.train.best_metric = "ema_loss";
    return request;
  };
  for (const std::int64_t accumulate : {1, 2}) {
    CAPTURE(accumulate);
    const std::string name = std::to_string(accumulate), one = folder.file("one" + name);
    const std::string many = folder.file("many" + name);
    Silent seen, watched;
    train(averaging(1, accumulate), one, OutFolder::exact, seen);
    TrainRequest stopped = averaging(3, accumulate);
    stopped.stop_signal = [&] { return watched.step >= 17 / accumulate ? 15 : 0; };
    CHECK(train(stopped, many, OutFolder::exact, watched).stopped_by == 15);
    CHECK(resume_training(averaging(2, accumulate), many, watched).stopped_by == 0);
    CHECK(weights(many) == weights(one));
    const std::string last_one = "/checkpoints/" + named(one, "last");
    for (const std::string& file : {std::string(), last_one})
      CHECK(read_file(many + file + "/weights_ema.safetensors") ==
            read_file(one + file + "/weights_ema.safetensors"));

    const TensorMap last = tensors(one + "/weights.safetensors"),
                    average = tensors(one + "/weights_ema.safetensors");
    REQUIRE(last.size() == average.size());
    CHECK(std::ranges::equal(
        last, average, {}, [](const auto& e) { return e.first; }, [](const auto& e) { return e.first; }));
    CHECK_FALSE(std::ranges::equal(last.at("head.weight").bytes(), average.at("head.weight").bytes()));

    const std::vector<nlohmann::json> lines = evaluations(one);
    REQUIRE(lines.size() == 2);
    for (const nlohmann::json& line : lines) {
      for (const char* metric : {"loss", "top1", "top5"}) CHECK(line.contains(std::string("ema_") + metric));
      CHECK(line.at("ema_loss") != line.at("loss"));
    }
    const std::string best = lines[1].at("ema_loss") < lines[0].at("ema_loss") ? "0002" : "0001";
    CHECK(named(one, "best").starts_with(best));
    CHECK(named(one, "last").starts_with("0002"));
    CHECK(named(many, "best") == named(one, "best"));
  }
}

TEST_CASE("averages that a run goes on with begin as its weights") {
  const test::TemporaryFolder folder;
  const std::string run = folder.file("run");
  TrainRequest stopped = request(1, 1);
  Silent watched;
  stopped.stop_signal = [&] { return watched.step >= 5 ? 15 : 0; };
  train(stopped, run, OutFolder::exact, watched);
  const TensorMap before = tensors(run + "/checkpoints/" + named(run, "last") + "/weights.safetensors");
  TrainRequest resumed = request(1, 1);
  resumed.recipe.train.ema = 0.5;
  resumed.recipe.train.max_steps = 6;
  resume_training(resumed, run, watched);
  const TensorMap after = tensors(run + "/weights.safetensors"),
                  average = tensors(run + "/weights_ema.safetensors");
  for (const auto& [name, tensor] : average) {
    const auto a = before.at(name).as<float>(), b = after.at(name).as<float>(), got = tensor.as<float>();
    for (std::size_t i = 0; i < got.size(); ++i) {
      CAPTURE(name, i);
      CHECK(got[i] == Approx(a[i] + 0.5 * (double(b[i]) - a[i])).epsilon(1e-6).margin(1e-12));
    }
  }
}

TEST_CASE("a run without patience for evaluations that are no better ends, stays ended, and can go on") {
  const test::TemporaryFolder folder;
  const std::string run = folder.file("run");
  const auto standing_still = [](std::int64_t patience) {
    TrainRequest request = runtime::request(1, 1);
    request.recipe.optimizer.set("lr", 0.0);  // no evaluation is better than the first
    request.recipe.train.epochs = 7;
    request.recipe.train.keep = 1;
    request.recipe.train.patience = patience;
    return request;
  };
  Silent seen;
  TrainRequest stopped = standing_still(3);
  Silent watched;
  stopped.stop_signal = [&] { return watched.step >= 30 ? 15 : 0; };  // in the third epoch
  CHECK(train(stopped, run, OutFolder::exact, watched).stopped_by == 15);
  const TrainResult ended = resume_training(standing_still(3), run, seen);
  CHECK(ended.stopped_by == 0);
  CHECK(ended.position.epoch == 4);
  CHECK(evaluations(run).size() == 4);
  CHECK(std::filesystem::exists(run + "/weights.safetensors"));
  CHECK(named(run, "best") == RunFolder::checkpoint_name(1, 12));
  CHECK(named(run, "last") == RunFolder::checkpoint_name(4, 48));
  CHECK(RunFolder::open(run).checkpoints().size() == 2);  // train.keep, and the best
  CHECK(progress_of(run, "last").at("best").at("waited") == 3);
  CHECK(progress_of(run, "last").at("best").at("metric") == "loss");

  CHECK(resume_training(standing_still(3), run, seen).position.epoch == 4);
  CHECK(resume_training(standing_still(4), run, seen).position.epoch == 5);
  CHECK(resume_training(standing_still(0), run, seen).position.epoch == 7);
  CHECK(named(run, "best") == RunFolder::checkpoint_name(1, 12));
}

TEST_CASE("the best evaluation is saved though no checkpoint is due, the greatest of what counts hits") {
  const test::TemporaryFolder folder;
  const std::string run = folder.file("run");
  TrainRequest request = runtime::request(1, 1);
  request.recipe.train.epochs = 5;
  request.recipe.train.checkpoint_every = 5;
  request.recipe.train.best_metric = "top1";
  Silent seen;
  train(request, run, OutFolder::exact, seen);
  const std::vector<nlohmann::json> lines = evaluations(run);
  REQUIRE(lines.size() == 5);
  std::size_t best = 0;
  for (std::size_t i = 1; i < lines.size(); ++i)
    if (lines[i].at("top1") > lines[best].at("top1")) best = i;
  const auto epoch = static_cast<std::int64_t>(best) + 1;
  CHECK(named(run, "best") == RunFolder::checkpoint_name(epoch, 12 * epoch));
  CHECK(progress_of(run, "last").at("best").at("value") == lines[best].at("top1"));

  request.recipe.train.best_metric = "ema_top1";
  CHECK_THROWS_WITH(train(request, folder.file("other"), OutFolder::exact, seen),
                    REWIRE_CATCH_CONTAINS("train.best_metric=ema_top1: an evaluation does not compute it") &&
                        REWIRE_CATCH_CONTAINS("it computes loss, top1, top5"));
}

}  // namespace
}  // namespace rewire::runtime
