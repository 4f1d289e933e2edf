// A run in this process, with all its threads: those that prepare batches, compile and compute. What they
// share is what ThreadSanitizer reads here.
#include "runtime/train/trainer.h"

#include <filesystem>

#include "models/model.h"
#include "runtime/io/files.h"
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

}  // namespace
}  // namespace rewire::runtime
