// Runs by SOAP, whose states are refreshed between steps: stopped anywhere and by any number of threads they end in the
// same bits, with batches accumulated, averages kept and gradients clipped.
#include "models/model.h"
#include "runtime/io/files.h"
#include "tests/runtime_train/step_watch.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

TrainRequest soap_request(std::int64_t threads, std::int64_t accumulate) {
  TrainRequest request;
  request.recipe = parse_recipe(R"(
[model]
dim = 12
depth = 1
heads = 2
patch = 7
[data]
format = "synthetic"
count = 72
[optimizer]
name = "soap"
precondition_frequency = 4
weight_decay = 0.04
weight_decay_end = 0.4
[train]
batch = 6
epochs = 2
clip_norm = 1.0
ema = 0.5
[eval]
batch = 24
)",
                                "test.toml");
  request.recipe.train.threads = threads;
  request.recipe.train.accumulate = accumulate;
  request.engine = engine_names().front();
  request.choices.autotune = false;
  ir::Selection model{"vit"};
  model.set("dim", 12).set("depth", 1).set("heads", 2).set("patch", 7);
  request.network.forward = [model](std::int64_t batch) { return models::build(model, batch); };
  return request;
}

TEST_CASE("A run by SOAP ends in the same bits, stopped between two refreshes or at one") {
  const test::TemporaryFolder folder;
  for (const std::int64_t accumulate : {1, 2}) {
    const std::string whole = folder.file("whole" + std::to_string(accumulate));
    StepWatch watcher;
    train(soap_request(1, accumulate), whole, OutFolder::exact, watcher);
    CHECK(watcher.step == 24 / accumulate);
    for (const std::int64_t at : {1, 4, 5, 7}) {
      CAPTURE(accumulate, at);
      StepWatch watched;
      TrainRequest stopped = soap_request(3, accumulate);
      stopped.stop_signal = [&] { return watched.step >= at ? 15 : 0; };
      const std::string run = whole + "_" + std::to_string(at);
      CHECK(train(stopped, run, OutFolder::exact, watched).position.step == at);
      resume_training(soap_request(2, accumulate), run, watched);
      for (const char* file : {"/weights.safetensors", "/weights_ema.safetensors"})
        CHECK(read_file(run + file) == read_file(whole + file));
    }
  }
}

}  // namespace
}  // namespace rewire::runtime
