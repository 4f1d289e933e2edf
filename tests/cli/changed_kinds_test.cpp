// A run whose batch changes, of each kind that keeps something of its own between steps: it ends where it should, and a stop
// after the change costs no bit.
#include <nlohmann/json.hpp>

#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

/// A step takes 8 samples first, then 4.
struct Kind {
  std::string name;
  Words words;
  Words first = {"--set", "train.batch=8"}, then = {"--set", "train.batch=4"};
};

/// 12 steps of 8 an epoch; the change comes in the first, after 5.
const Words kShort = {"--set", "data.format=synthetic", "--set",  "data.count=99",
                      "--set", "train.epochs=2",        "--set",  "eval.batch=99",
                      "--set", "train.log_every=1",     "--set",  "schedule.name=cosine",
                      "--set", "optimizer.lr=0.001",    "--quiet"};

std::vector<Kind> kinds() {
  const Words resnet = {"resnet18",      "--set", "model.image=16",     "--set", "model.channels=1", "--set",
                        "model.width=4", "--set", "model.depths=[1, 1]"};
  return {
      {"phases", kModel + Words{"--plugin", plugin_file("gain") + ":factor=0.5,from_epoch=1"}},
      {"soap", kModel + Words{"--set", "optimizer.name=soap", "--set", "optimizer.precondition_frequency=3"}},
      {"patience", kModel + Words{"--set", "train.patience=5"}},
      {"batch_norms",
       resnet,
       {"--set", "train.batch=4", "--set", "train.accumulate=2"},
       {"--set", "train.accumulate=1"}},
      {"averages", kModel + Words{"--set", "train.ema=0.9", "--set", "train.ema_end=0.99"}},
  };
}

std::string weights_of(const TemporaryFolder& folder, const Kind& kind, bool stops) {
  const std::string run = folder.file(kind.name + (stops ? "-stopped" : ""));
  const auto resume = [&](const Words& more) {
    const Outcome outcome = rewire_command(Words{"train", "--resume", run, "--quiet"} + more);
    INFO(outcome.err);
    CHECK(outcome.code == 0);
  };
  const Outcome begun = rewire_command(Words{"train"} + kind.words + kShort + kind.first +
                                       Words{"--out", run, "--set", "train.max_steps=5"});
  INFO(begun.err);
  REQUIRE(begun.code == 0);
  if (stops) {
    resume(kind.then + Words{"--set", "train.max_steps=11"});
    resume({"--set", "train.max_steps=0"});
  } else {
    resume(kind.then + Words{"--set", "train.max_steps=0"});
  }
  // 40 of 99 samples in steps of 8, the rest and an epoch in steps of 4.
  CHECK(metrics(run).back().at("step") == 5 + (99 - 40) / 4 + 99 / 4);
  return read_text(run + "/weights.safetensors");
}

TEST_CASE(
    "A run of each kind goes on with other batches, and keeps its bits where it is stopped after the "
    "change") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    const TemporaryFolder folder;
    CHECK(weights_of(folder, kind, false) == weights_of(folder, kind, true));
  }
}

}  // namespace
}  // namespace rewire::test
