// Strategies that are switched on and off in training, through the program: each epoch trains what is on, the
// optimizer keeps or forgets, weights that come late begin as a new optimizer would begin them, and a killed
// run goes on to the same bytes.
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/io/safetensors.h"
#include "tests/cli/program.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

constexpr int kStepsPerEpoch = 100;
constexpr std::size_t kLinesPerEpoch = 11;  // every ten steps, and the evaluation

/// Three epochs of a small ViT, with dropout and a gradient clipped, on synthetic images. A checkpoint stands
/// at half of each epoch too.
Words train(const std::string& out, const Words& more) {
  Words words = {"train", "vit_tiny_28", "--out", out, "--quiet"};
  for (const char* setting : {"model.dim=8", "model.depth=2", "model.heads=2", "model.patch=14",
                              "model.dropout=0.1", "data.format=synthetic", "data.count=800", "train.batch=8",
                              "train.epochs=3", "train.log_every=10", "train.checkpoint_every=0.5",
                              "train.keep=100", "train.clip_norm=1", "train.threads=1", "eval.batch=400"}) {
    words = words + Words{"--set", setting};
  }
  return words + more;
}

/// Metrics without what depends on the clock.
std::vector<Json> metrics(const std::string& run) {
  std::vector<Json> lines;
  std::istringstream text(read_text(run + "/metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    lines.push_back(Json::parse(line));
    lines.back().erase("samples_per_s");
    lines.back().erase("seconds");
  }
  return lines;
}

std::string trained(const TemporaryFolder& folder, const std::string& name, const Words& more) {
  const std::string run = folder.file(name);
  const Outcome outcome = rewire_command(train(run, more));
  CHECK(outcome.err.empty());
  REQUIRE(outcome.code == 0);
  return run;
}

/// Kills a run of the same settings as `whole` once it has written `lines` lines of metrics, resumes it, and
/// holds weights, metrics and the last checkpoint's state to those of `whole`.
void check_resumes(const TemporaryFolder& folder, const std::string& whole, const Words& more,
                   std::size_t lines) {
  CAPTURE(lines);
  const std::string run = folder.file("killed" + std::to_string(lines) + fs::path(whole).filename().string());
  // In the epoch of that line.
  const std::size_t before = (lines / kLinesPerEpoch + 1) * kLinesPerEpoch;
  REQUIRE(interrupted(train(run, more), run, {SIGKILL, lines, before}).code == 128 + SIGKILL);
  REQUIRE_FALSE(fs::exists(run + "/weights.safetensors"));
  CHECK(rewire_command({"train", "--resume", run, "--quiet"}).err.empty());
  CHECK(read_text(run + "/weights.safetensors") == read_text(whole + "/weights.safetensors"));
  CHECK(metrics(run) == metrics(whole));
  const std::string last = "/checkpoints/0003-00000300/state.safetensors";
  CHECK(read_text(run + last) == read_text(whole + last));
}

/// The first line in which two runs differ; the number of lines where they are the same.
std::size_t first_difference(const std::string& a, const std::string& b) {
  const std::vector<Json> x = metrics(a), y = metrics(b);
  REQUIRE(x.size() == 3 * kLinesPerEpoch);
  REQUIRE(y.size() == x.size());
  return static_cast<std::size_t>(std::ranges::mismatch(x, y).in1 - x.begin());
}

double state_of(const std::string& run, const std::string& checkpoint, const std::string& name) {
  const auto file = runtime::read_safetensors(run + "/checkpoints/" + checkpoint + "/state.safetensors");
  CAPTURE(name);
  REQUIRE(file.tensors.contains(name));
  return runtime::to_double(file.tensors.at(name)).scalar();
}

/// The loss on the test images of the weights in `file` in the network of another run, switched by no epoch.
double loss_of(const std::string& file, const std::string& network) {
  const Outcome outcome = rewire_command(
      {"eval", network + "/recipe.toml", "--weights", file, "--other-strategy", "--json", "--quiet"});
  REQUIRE(outcome.code == 0);
  return Json::parse(outcome.out).at("loss").get<double>();
}

TEST_CASE("Orthogonal in the second epoch alone: plain, orthogonal, plain, whatever becomes of the moments") {
  const TemporaryFolder folder;
  const std::string plain = trained(folder, "plain", {}),
                    on = trained(folder, "on", {"--plugin", "orthogonal"});
  const std::string stays = trained(folder, "stays", {"--plugin", "orthogonal:from_epoch=1"});
  CHECK(first_difference(plain, on) == 0);
  for (const std::string how : {"keep", "reset"}) {
    CAPTURE(how);
    const Words more = {"--plugin", "orthogonal:from_epoch=1,to_epoch=2", "--set", "train.on_switch=" + how};
    const std::string whole = trained(folder, how, more);
    // To the end of the first epoch it is the plain run; with what the optimizer had kept, to the end of the
    // second the run that stays orthogonal.
    CHECK(first_difference(whole, plain) == kLinesPerEpoch);
    CHECK(first_difference(whole, stays) == (how == "keep" ? 2 : 1) * kLinesPerEpoch);
    // What the evaluation behind each epoch saw: orthogonal after the second, plain after the third.
    const auto evaluated = [&](std::size_t epoch) {
      return metrics(whole).at(epoch * kLinesPerEpoch - 1).at("loss").get<double>();
    };
    const std::string second = whole + "/checkpoints/0002-00000200/weights.safetensors",
                      third = whole + "/weights.safetensors";
    CHECK(loss_of(second, on) == evaluated(2));
    CHECK(loss_of(second, plain) != evaluated(2));
    CHECK(loss_of(third, plain) == evaluated(3));
    CHECK(loss_of(third, on) != evaluated(3));
    // The updates that the moments have seen.
    CHECK(state_of(whole, "0003-00000300", "optimizer.step") == (how == "keep" ? 3 : 1) * kStepsPerEpoch);
    CHECK(state_of(whole, "0003-00000300", "train.step") == 3 * kStepsPerEpoch);
    check_resumes(folder, whole, more, kLinesPerEpoch + 6);      // while it is on
    check_resumes(folder, whole, more, 2 * kLinesPerEpoch + 3);  // when it is off again
  }
}

TEST_CASE("Weights that come with a later epoch are there from the start, train from then on, and resume") {
  const TemporaryFolder folder;
  const std::string plain = trained(folder, "plain", {});
  struct Case {
    std::string spec, weight;
  };
  for (const Case& c : {Case{"augment:blocks=2", "blocks.0.join_attn.c"},
                        Case{"decay:learnable=true", "blocks.1.join_mlp.alpha"}}) {
    for (const std::string how : {"keep", "reset"}) {
      CAPTURE(c.spec, how);
      const Words more = {"--plugin", c.spec + ",from_epoch=1", "--set", "train.on_switch=" + how};
      const std::string whole = trained(folder, c.spec.substr(0, c.spec.find(':')) + how, more);
      CHECK(first_difference(whole, plain) == kLinesPerEpoch);
      const auto weights_at = [&](const std::string& checkpoint) {
        return runtime::to_double(
                   runtime::read_safetensors(whole + "/checkpoints/" + checkpoint + "/weights.safetensors")
                       .tensors.at(c.weight))
            .data;
      };
      CHECK(weights_at("0000-00000050") == weights_at("0001-00000100"));
      CHECK(weights_at("0001-00000100") != weights_at("0001-00000150"));
      // By their own count, whatever the others' is.
      CHECK(state_of(whole, "0003-00000300", "optimizer.step.1") == 2 * kStepsPerEpoch);
      CHECK(state_of(whole, "0003-00000300", "optimizer.step") == (how == "keep" ? 3 : 2) * kStepsPerEpoch);
      check_resumes(folder, whole, more, kLinesPerEpoch + 6);
    }
  }
}

TEST_CASE("Off and on again, a strategy's weights count the updates that their moments have seen") {
  const TemporaryFolder folder;
  for (const std::string how : {"keep", "reset"}) {
    CAPTURE(how);
    const Words more = {"--plugin", "augment:blocks=2,to_epoch=1",
                        "--plugin", "augment:blocks=2,from_epoch=2",
                        "--set",    "train.on_switch=" + how};
    const std::string whole = trained(folder, how, more);
    CHECK(state_of(whole, "0001-00000150", "optimizer.step.0_1_2") == (how == "keep" ? kStepsPerEpoch : 0));
    CHECK(state_of(whole, "0003-00000300", "optimizer.step.0_1_2") ==
          (how == "keep" ? 2 : 1) * kStepsPerEpoch);
    CHECK(state_of(whole, "0003-00000300", "optimizer.step") == (how == "keep" ? 3 : 1) * kStepsPerEpoch);
    check_resumes(folder, whole, more, 2 * kLinesPerEpoch + 3);
  }
}

TEST_CASE("A run that is made longer, past an epoch that switches, goes on with the counts it has") {
  const TemporaryFolder folder;
  const Words more = {"--plugin", "augment:blocks=2,from_epoch=1", "--plugin", "orthogonal:to_epoch=2"};
  const std::string whole = trained(folder, "whole", more);
  const std::string run = trained(folder, "longer", more + Words{"--set", "train.epochs=2"});
  CHECK(rewire_command({"train", "--resume", run, "--quiet", "--set", "train.epochs=3"}).err.empty());
  CHECK(read_text(run + "/weights.safetensors") == read_text(whole + "/weights.safetensors"));
  CHECK(state_of(run, "0003-00000300", "optimizer.step.1") == 2 * kStepsPerEpoch);
}

TEST_CASE("A run whose switch has been moved goes on") {
  const TemporaryFolder folder;
  const std::string run =
      trained(folder, "run", {"--plugin", "augment:blocks=2,from_epoch=1", "--set", "train.epochs=2"});
  const Words resume = {"train", "--resume", run, "--set", "train.epochs=3", "--log-level", "warning"};
  const Outcome outcome = rewire_command(resume + Words{"--plugin", "augment:blocks=2,from_epoch=2"});
  CHECK(outcome.code == 0);
  CHECK_THAT(
      outcome.err,
      REWIRE_CATCH_CONTAINS(
          "lacks 'optimizer.step.2': weights that a later epoch switches on continue from 100 updates\n"));
  CHECK(state_of(run, "0003-00000300", "optimizer.step.2") == 2 * kStepsPerEpoch);
}

// Without weight decay AdamW's first step moves every number by the rate. By the count of the run, here 31,
// it would be 0.1 / sqrt(0.001) sqrt(1 - 0.999^31) / (1 - 0.9^31) = 0.57 of it, and 3.2 times after
// thousands.
TEST_CASE("The first step of a weight that comes late is as long as the learning rate") {
  const TemporaryFolder folder;
  const double rate = 1e-3;
  const std::string run = folder.file("run");
  const Words more = {"--plugin", "augment:blocks=2,from_epoch=30",
                      "--set",    "data.count=8",
                      "--set",    "train.epochs=31",
                      "--set",    "train.checkpoint_every=1",
                      "--set",    "optimizer.weight_decay=0",
                      "--set",    "optimizer.lr=0.001"};
  const Outcome outcome = rewire_command(train(run, more));
  REQUIRE(outcome.code == 0);
  const auto weights = [&](const std::string& checkpoint, const std::string& name) {
    return runtime::to_double(
               runtime::read_safetensors(run + "/checkpoints/" + checkpoint + "/weights.safetensors")
                   .tensors.at(name))
        .data;
  };
  for (const std::string name : {"blocks.0.join_attn.c", "blocks.1.join_mlp.c"}) {
    CAPTURE(name);
    const std::vector<double> before = weights("0030-00000030", name), after = weights("0031-00000031", name);
    for (std::size_t i = 0; i < before.size(); ++i)
      CHECK(std::abs(after[i] - before[i]) == Approx(rate).epsilon(0.01));
  }
}

}  // namespace
}  // namespace rewire::test
