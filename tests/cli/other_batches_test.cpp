// A run that goes on with other batches, or is given other data: what becomes of its epochs, its schedule and its bits.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

/// 25 steps of 8 in each of four epochs, three samples left over.
const Words kPlaced = kModel + Words{"--set", "data.format=synthetic", "--set", "data.count=203",
                                     "--set", "train.batch=8",         "--set", "train.epochs=4",
                                     "--set", "train.log_every=1",     "--set", "eval.batch=203",
                                     "--set", "model.dropout=0.1",     "--set", "schedule.name=cosine",
                                     "--set", "optimizer.lr=0.001"};

Outcome resume(const std::string& run, const Words& settings) {
  Words words = {"train", "--resume", run};
  for (const std::string& setting : settings) words = words + Words{"--set", setting};
  return rewire_command(words);
}

/// 8, 4, 16 and 2 x 8 samples a step, each resumed at an odd place; `more`: a stop within the last.
std::string changed_run(const TemporaryFolder& folder, const std::string& name, bool stops) {
  const std::string run = folder.file(name);
  REQUIRE(
      rewire_command(Words{"train"} + kPlaced + Words{"--quiet", "--out", run, "--set", "train.max_steps=30"})
          .code == 0);
  const Outcome smaller = resume(run, {"train.batch=4", "train.max_steps=47"});
  CHECK(smaller.code == 0);
  CHECK_THAT(
      smaller.err,
      REWIRE_CATCH_CONTAINS(
          "a step takes 4 samples instead of 8: epoch 2 continues after its sample 40, 3 of its samples are "
          "left over at its end; the schedule continues from 30.0 % of the run, which ends with step 47\n"));
  CHECK(resume(run, {"train.batch=16", "train.max_steps=50"}).code == 0);
  if (stops) CHECK(resume(run, {"train.batch=8", "train.accumulate=2", "train.max_steps=61"}).code == 0);
  const Outcome last = resume(run, {"train.batch=8", "train.accumulate=2", "train.max_steps=0"});
  CHECK(last.code == 0);
  CHECK((last.err.find("a step takes") == std::string::npos));  // 16 samples as before
  return run;
}

TEST_CASE("A run goes on with other batches: its schedule does not jump, and ends where the run does") {
  const TemporaryFolder folder;
  const std::string run = changed_run(folder, "run", false);
  std::vector<double> rates;
  std::int64_t epoch = -1, step = 0;
  for (const Json& line : metrics(run)) {
    if (line.at("kind") != "train") continue;
    rates.push_back(line.at("lr"));
    CHECK(line.at("step").get<std::int64_t>() == ++step);
    epoch = line.at("epoch");
  }
  CHECK(epoch == 3);
  // 25 steps of 8; 5 of 8, 17 of 4, 3 of 16 and the rest of 203 samples by 16; twice 12 of 16.
  CHECK(step == 25 + 5 + 17 + 3 + (203 - 40 - 68 - 48) / 16 + 2 * 12);
  REQUIRE(rates.size() > 60);
  CHECK(std::ranges::is_sorted(rates, std::greater<>()));
  CHECK(rates.front() == Approx(1e-3));
  for (std::size_t i = 1; i < rates.size(); ++i) CHECK(rates[i - 1] - rates[i] < 5e-5);
  CHECK(rates.back() < 5e-6);  // half a cosine wave, a step before its end
}

TEST_CASE("A run whose batch was changed keeps its bits when it is stopped and gone on with") {
  const TemporaryFolder folder;
  const std::string whole = changed_run(folder, "whole", false),
                    stopped = changed_run(folder, "stopped", true);
  CHECK(read_text(whole + "/weights.safetensors") == read_text(stopped + "/weights.safetensors"));
}

TEST_CASE("A run is not gone on with on other data, unless they are accepted: then in the next epoch") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  REQUIRE(
      rewire_command(Words{"train"} + kPlaced + Words{"--quiet", "--out", run, "--set", "train.max_steps=30"})
          .code == 0);
  check_refusal(resume(run, {"data.count=100", "train.max_steps=0"}),
                run +
                    ": synthetic data is not the data it was trained on (203 samples then, 100 now): restore "
                    "them, or set data.changed=accept to continue with the next epoch");
  CHECK(resume(run, {"data.train_fraction=0.5", "train.max_steps=0"}).code == 2);
  const Outcome accepted = resume(run, {"data.count=100", "train.max_steps=0", "data.changed=accept"});
  CHECK(accepted.code == 0);
  CHECK_THAT(accepted.err, REWIRE_CATCH_CONTAINS(
                               "the data are not those the run was trained on (203 samples then, 100 now): "
                               "it continues with them in epoch 3, without the rest of the current epoch\n"));
  CHECK(metrics(run).back().at("step") == 30 + 2 * 12);
  check_refusal(resume(run, {"train.epochs=5", "data.count=203"}),
                run +
                    ": synthetic data is not the data it was trained on (100 samples then, 203 now): restore "
                    "them, or set data.changed=accept to continue with the next epoch");
  CHECK(resume(run, {"train.epochs=5"}).code == 0);
}

TEST_CASE("Accepted data are the run's once a checkpoint has them, and take an epoch to come") {
  const TemporaryFolder folder;
  const std::string last = folder.file("last"), end = folder.file("end");
  const Words quiet = Words{"train"} + kPlaced + Words{"--quiet", "--out"};
  REQUIRE(rewire_command(quiet + Words{last, "--set", "train.max_steps=80"}).code == 0);
  check_refusal(resume(last, {"data.count=100", "train.max_steps=0", "data.changed=accept"}),
                last +
                    ": the data are not those it was trained on (203 samples then, 100 now), and no epoch is "
                    "left for them: set more than train.epochs=4");
  REQUIRE(rewire_command(quiet + Words{end, "--set", "train.max_steps=100"}).code == 0);
  const Words other = {"data.count=100", "train.epochs=5", "data.changed=accept"};
  CHECK(resume(end, other + Words{"train.max_steps=100"}).code ==
        0);  // no step: the checkpoint is of the old data still
  CHECK_THAT(read_text(end + "/recipe.toml"), REWIRE_CATCH_CONTAINS("changed = \"accept\""));
  CHECK(resume(end, {"train.max_steps=0"}).code == 0);
  CHECK(metrics(end).back().at("step") == 100 + 12);
  CHECK(read_text(end + "/recipe.toml").find("accept") == std::string::npos);
  CHECK(resume(end, {"train.epochs=6"}).code == 0);
}

TEST_CASE("A batch that leaves an epoch no step loses no line of metrics") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  REQUIRE(rewire_command(
              Words{"train"} + kPlaced +
              Words{"--quiet", "--out", run, "--set", "train.log_every=50", "--set", "train.max_steps=99"})
              .code == 0);
  CHECK(resume(run, {"train.batch=16", "train.max_steps=0"}).code == 0);
  std::vector<std::int64_t> steps;
  for (const Json& line : metrics(run))
    if (line.at("kind") == "train") steps.push_back(line.at("step"));
  CHECK(steps.back() == 99);
}

}  // namespace
}  // namespace rewire::test
