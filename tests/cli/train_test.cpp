// Training as a user meets it: a run folder that holds what it should, and the same bits however the run came
// to its end.
#include <signal.h>
#include <sys/resource.h>
#include <algorithm>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/io/safetensors.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

/// Dropout, drop path and augmentation draw numbers in every step. Two epochs of 150 steps: long enough that
/// a signal meant for the middle of the second comes before its end.
const Words kRun = kModel + Words{"--set",  "data.format=synthetic",
                                  "--set",  "data.count=1203",
                                  "--set",  "train.batch=8",
                                  "--set",  "train.epochs=2",
                                  "--set",  "train.log_every=20",
                                  "--set",  "eval.batch=500",
                                  "--set",  "model.dropout=0.1",
                                  "--set",  "model.drop_path=0.2",
                                  "--set",  "transforms.crop_padding=2",
                                  "--set",  "train.clip_norm=1",
                                  "--quiet"};

Words train(const Words& run, const std::string& out, const Words& more = {}) {
  return Words{"train"} + run + Words{"--out", out} + more;
}

/// Without what depends on the clock.
std::vector<Json> timeless(std::vector<Json> lines) {
  for (Json& line : lines) {
    line.erase("samples_per_s");
    line.erase("seconds");
  }
  return lines;
}

std::size_t entries(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

/// Trained once without a stop: what every other way must come to.
const std::string& whole_run() {
  static const TemporaryFolder folder;
  static const std::string run = [] {
    const std::string path = folder.file("whole");
    const Outcome outcome = rewire_command(train(kRun, path));
    if (outcome.code != 0) throw std::runtime_error(outcome.err);
    return path;
  }();
  return run;
}

void check_same_run(const std::string& run) {
  CHECK(read_text(run + "/weights.safetensors") == read_text(whole_run() + "/weights.safetensors"));
  CHECK(timeless(metrics(run)) == timeless(metrics(whole_run())));
  const std::string last = "/checkpoints/0002-00000300/state.safetensors";
  CHECK(read_text(run + last) == read_text(whole_run() + last));
}

/// But for what the file says that they are of: a module is no model of the zoo.
void check_same_weights(const std::string& run) {
  const auto weights = runtime::read_safetensors(run + "/weights.safetensors").tensors,
             whole = runtime::read_safetensors(whole_run() + "/weights.safetensors").tensors;
  REQUIRE(weights.size() == whole.size());
  for (const auto& [name, tensor] : weights)
    CHECK(std::ranges::equal(tensor.bytes(), whole.at(name).bytes()));
}

TEST_CASE("A run folder holds recipe, choices, metrics twice, checkpoints, weights, log, report and events") {
  const std::string& run = whole_run();
  CHECK(entries(run) == 9);
  CHECK(fs::exists(run + "/metrics.prom"));
  CHECK(checkpoints(run) == 2);
  CHECK(fs::exists(run + "/checkpoints/0001-00000150/weights.safetensors"));
  const std::vector<Json> lines = metrics(run);
  std::vector<int> steps;
  for (const Json& line : lines) steps.push_back(line.at("step").get<int>());
  CHECK(steps == std::vector<int>{20, 40, 60, 80, 100, 120, 140, 150, 150,  // the last: the evaluation
                                  160, 180, 200, 220, 240, 260, 280, 300, 300});
  CHECK(lines[8].at("kind") == "eval");
  CHECK(lines[8].at("samples") == 1203);
  CHECK(lines[17].at("epoch") == 1);
  CHECK(lines[17].at("loss").get<double>() < lines[8].at("loss").get<double>());
  CHECK(Json::parse(read_text(run + "/choices.json")).at("engine") == "jit");
  const auto weights = runtime::read_safetensors(run + "/weights.safetensors");
  CHECK(weights.metadata.at("format") == "pt");
  CHECK(weights.tensors.contains("blocks.0.attn.qkv.weight"));

  const Outcome eval = rewire_command({"eval", run, "--json", "--quiet"});
  CHECK(eval.code == 0);
  CHECK(Json::parse(eval.out).at("loss") == lines[17].at("loss"));
  CHECK(Json::parse(eval.out).at("top1") == lines[17].at("top1"));
  const Outcome by_weights =
      rewire_command({"eval", run + "/recipe.toml", "--weights", run + "/weights.safetensors", "--engine",
                      "evaluator", "--json", "--quiet"});
  CHECK(by_weights.err.empty());
  CHECK(Json::parse(by_weights.out).at("loss").get<double>() ==
        Approx(lines[17].at("loss").get<double>()).epsilon(1e-5));
}

TEST_CASE("A run folder says which libraries its plugins are") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  const Outcome trained = rewire_command(train(
      kRun, run, {"--set", "data.count=40", "--set", "train.epochs=1", "--plugin", plugin_file("gain")}));
  REQUIRE(trained.err.empty());
  const Json info = Json::parse(rewire_command({"plugins", "info", plugin_file("gain"), "--json"}).out);
  const Json record = Json::parse(read_text(run + "/plugins.json")).at("plugins");
  REQUIRE(record.size() == 1);
  for (const char* key : {"name", "version", "path", "sha256"}) CHECK(record[0].at(key) == info.at(key));
}

TEST_CASE("The resolved recipe trains to the same bits") {
  const TemporaryFolder folder;
  const std::string run = folder.file("again");
  CHECK(rewire_command({"train", whole_run() + "/recipe.toml", "--out", run, "--quiet"}).err.empty());
  check_same_run(run);
}

/// The run as it is complete after `steps`, and then goes on to its whole length.
void check_early_end(const std::string& run, int steps, const std::vector<int>& last_steps) {
  const std::string count = std::to_string(steps);
  CAPTURE(steps);
  const Outcome ended = rewire_command(train(kRun, run, {"--set", "train.max_steps=" + count, "--json"}));
  REQUIRE(ended.err.empty());
  const Json result = Json::parse(ended.out);
  CHECK(result.at("complete") == true);
  CHECK(result.at("steps") == steps);
  CHECK(result.at("train_loss") > 0);
  std::vector<Json> lines = metrics(run);
  std::vector<int> seen;
  for (const Json& line : lines) seen.push_back(line.at("step").get<int>());
  CHECK(std::vector<int>(seen.end() - static_cast<std::ptrdiff_t>(last_steps.size()), seen.end()) ==
        last_steps);
  CHECK(lines.back().at("kind") == "eval");
  CHECK(lines.back().at("loss") == result.at("test_loss"));
  const std::string weights = read_text(run + "/weights.safetensors");
  CHECK(Json::parse(rewire_command({"eval", run, "--json", "--quiet"}).out).at("loss") ==
        result.at("test_loss"));

  // It is complete: to go on changes nothing.
  CHECK(rewire_command({"train", "--resume", run, "--quiet"}).code == 0);
  CHECK(timeless(metrics(run)) == timeless(lines));
  CHECK(read_text(run + "/weights.safetensors") == weights);
  // The schedule and all else is that of a run without an end before its last epoch.
  CHECK(rewire_command({"train", "--resume", run, "--quiet", "--set", "train.max_steps=0"}).err.empty());
  check_same_run(run);
  const Outcome refused =
      rewire_command({"train", "--resume", run, "--quiet", "--set", "train.max_steps=" + count});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, REWIRE_CATCH_CONTAINS("300 steps were done, more than train.max_steps=" + count));
}

TEST_CASE(
    "train.max_steps ends a run that is complete then, and goes on to the bits of one that never ended") {
  const TemporaryFolder folder;
  check_early_end(folder.file("within"), 173, {150, 160, 173, 173});  // a line under way is written
  check_early_end(folder.file("epoch"), 150, {140, 150, 150});
  check_early_end(folder.file("line"), 40, {20, 40, 40});
  const std::string run = folder.file("more");
  CHECK(rewire_command(train(kRun, run, {"--set", "train.max_steps=301"})).err.empty());
  check_same_run(run);
}

TEST_CASE("An end by train.max_steps is evaluated where its epoch would not be, and resumes with a cosine") {
  const TemporaryFolder folder;
  const Words some = {"--set", "data.count=40", "--set", "train.epochs=8",
                      "--set", "eval.every=8",  "--set", "schedule.name=cosine"};
  const std::string whole = folder.file("whole"), run = folder.file("run");
  REQUIRE(rewire_command(train(kRun, whole, some)).err.empty());
  REQUIRE(rewire_command(train(kRun, run, some + Words{"--set", "train.max_steps=10"})).err.empty());
  CHECK(metrics(run).back().at("kind") == "eval");
  CHECK(fs::exists(run + "/checkpoints/0002-00000010"));
  for (const char* steps : {"13", "0"}) {
    CHECK(rewire_command(
              {"train", "--resume", run, "--quiet", "--set", std::string("train.max_steps=") + steps})
              .err.empty());
  }
  CHECK(timeless(metrics(run)) == timeless(metrics(whole)));
  CHECK(read_text(run + "/weights.safetensors") == read_text(whole + "/weights.safetensors"));
}

TEST_CASE("Threads of data and of computing do not change a bit") {
  const TemporaryFolder folder;
  const std::string run = folder.file("threads");
  const Outcome outcome = rewire_command(
      train(kRun, run,
            {"--set", "train.threads=1", "--set", "data.threads=3", "--set", "data.prefetch=7", "--json"}));
  CHECK(outcome.code == 0);
  CHECK(Json::parse(outcome.out).at("complete") == true);
  check_same_run(run);
}

TEST_CASE("kill -9 in mid-epoch, the kernel cache deleted: --resume comes to the same bits") {
  for (const char* every : {"1", "0.25"}) {
    CAPTURE(every);
    const TemporaryFolder folder;
    const std::string run = folder.file("killed");
    const std::string cache = folder.file("cache");
    // In the second epoch, after step 180.
    REQUIRE(interrupted(train(kRun, run, {"--set", std::string("train.checkpoint_every=") + every}), run,
                        {SIGKILL, 11, 18}, {"XDG_CACHE_HOME=" + cache})
                .code == 128 + SIGKILL);
    REQUIRE_FALSE(fs::exists(run + "/weights.safetensors"));
    CHECK(fs::remove_all(cache) > 1);
    const Outcome resumed = RunningCommand({"train", "--resume", run, "--quiet", "--set", "data.threads=2",
                                            "--set", "data.prefetch=9"},
                                           {"XDG_CACHE_HOME=" + cache})
                                .wait();
    CHECK(resumed.err.empty());
    check_same_run(run);
  }
}

TEST_CASE("SIGINT and SIGTERM save and exit; --resume goes on, as often as it takes") {
  const TemporaryFolder folder;
  const std::string run = folder.file("stopped");
  const Outcome stopped = interrupted(train(kRun, run), run, {SIGINT, 1, 11});
  CHECK(stopped.code == 128 + SIGINT);
  CHECK_THAT(stopped.err, REWIRE_CATCH_CONTAINS("rewire: stopped by signal 2 after step ") &&
                              REWIRE_CATCH_CONTAINS("; rewire train --resume " + run + " continues\n"));
  CHECK(checkpoints(run) >= 1);
  REQUIRE(interrupted({"train", "--resume", run, "--quiet", "--set", "train.threads=1"}, run, {SIGTERM, 11})
              .code == 128 + SIGTERM);
  CHECK(rewire_command({"train", "--resume", run, "--quiet"}).err.empty());
  check_same_run(run);
  // A complete run is complete: once more changes nothing.
  CHECK(rewire_command({"train", "--resume", run, "--quiet"}).code == 0);
  check_same_run(run);
}

TEST_CASE("Accumulated batches resume to the same bits") {
  const TemporaryFolder folder;
  const Words accumulated = kRun + Words{"--set", "train.accumulate=4", "--set", "train.log_every=1"};
  const std::string whole = folder.file("whole"), run = folder.file("stopped");
  CHECK(rewire_command(train(accumulated, whole)).err.empty());
  CHECK(metrics(whole).back().at("step") ==
        74);  // two epochs of 150 batches: 37 steps each, 2 batches left over
  REQUIRE(interrupted(train(accumulated, run), run, {SIGTERM, 3}).code == 128 + SIGTERM);
  CHECK(rewire_command({"train", "--resume", run, "--quiet"}).err.empty());
  CHECK(read_text(run + "/weights.safetensors") == read_text(whole + "/weights.safetensors"));
  CHECK(timeless(metrics(run)) == timeless(metrics(whole)));
}

TEST_CASE("A run in bf16 keeps f32 weights, resumes to the same bits, and is evaluated as it was trained") {
  const TemporaryFolder folder;
  const Words narrow = kRun + Words{"--set", "train.dtype=bf16", "--set", "train.stream_dtype=bf16"};
  const std::string whole = folder.file("whole"), run = folder.file("stopped");
  CHECK(rewire_command(train(narrow, whole)).err.empty());
  REQUIRE(interrupted(train(narrow, run), run, {SIGTERM, 3}).code == 128 + SIGTERM);
  CHECK(rewire_command({"train", "--resume", run, "--quiet", "--set", "train.threads=1"}).err.empty());
  CHECK(read_text(run + "/weights.safetensors") == read_text(whole + "/weights.safetensors"));
  CHECK(timeless(metrics(run)) == timeless(metrics(whole)));
  const auto weights = runtime::read_safetensors(whole + "/weights.safetensors");
  for (const auto& [name, tensor] : weights.tensors) {
    CAPTURE(name);
    CHECK(tensor.type().dtype == ir::DType::f32);
  }
  const Outcome eval = rewire_command({"eval", whole, "--json", "--quiet"});
  CHECK(Json::parse(eval.out).at("loss") == metrics(whole).back().at("loss"));
  const Outcome wide = rewire_command({"eval", whole + "/recipe.toml", "--set", "train.dtype=f32", "--set",
                                       "train.stream_dtype=f32", "--weights", whole + "/weights.safetensors",
                                       "--json", "--quiet"});
  CHECK(Json::parse(wide.out).at("loss") != metrics(whole).back().at("loss"));
  CHECK(Json::parse(wide.out).at("loss").get<double>() ==
        Approx(metrics(whole).back().at("loss").get<double>()).epsilon(0.02));
}

TEST_CASE(
    "What a plugin reports and adds to the loss is in the metrics, and its hooks resume to the same bits") {
  const TemporaryFolder folder;
  for (const char* accumulate : {"1", "2"}) {
    CAPTURE(accumulate);
    const Words hooked = kRun + Words{"--plugin", plugin_file("hooks") + ":fault=report_nan", "--set",
                                      std::string("train.accumulate=") + accumulate};
    const std::string whole = folder.file("whole" + std::string(accumulate));
    const std::string run = folder.file("stopped" + std::string(accumulate));
    CHECK(rewire_command(train(hooked, whole)).err.empty());
    const std::vector<Json> lines = metrics(whole);
    for (const Json& line : lines) {
      if (line.at("kind") != "train") {
        CHECK_FALSE(line.contains("plain_loss"));
        continue;
      }
      // Behind the first step the mean of w^2 is 1 at both joins: their terms are 0.02.
      const double term = line.at("loss").get<double>() - line.at("plain_loss").get<double>();
      CHECK(term > 0.015);
      CHECK(term < 0.0201);
      for (const char* join : {"0.attn", "0.mlp"}) {
        const std::string name = "report.blocks." + std::string(join) + ".hooks.";
        CHECK(line.at(name + "gate").is_number());
        CHECK(line.at(name + "no_number").is_null());
      }
    }
    const auto weights = runtime::read_safetensors(whole + "/weights.safetensors");
    CHECK(weights.tensors.at("train.progress").as<float>()[0] == 1);
    CHECK(weights.tensors.at("blocks.0.join_attn.m").as<float>()[0] != 0);
    double square = 0;
    const auto& w = weights.tensors.at("blocks.0.join_attn.w");
    for (const float x : w.as<float>()) square += static_cast<double>(x) * static_cast<double>(x);
    CHECK(square / static_cast<double>(w.type().elements()) == Approx(1).epsilon(1e-5));

    REQUIRE(interrupted(train(hooked, run), run, {SIGTERM, 3}).code == 128 + SIGTERM);
    CHECK(rewire_command({"train", "--resume", run, "--quiet", "--set", "train.threads=1"}).err.empty());
    CHECK(read_text(run + "/weights.safetensors") == read_text(whole + "/weights.safetensors"));
    CHECK(timeless(metrics(run)) == timeless(metrics(whole)));
    // Evaluation has the progress of the weights: 1.
    CHECK(Json::parse(rewire_command({"eval", whole, "--json", "--quiet"}).out).at("loss") ==
          lines.back().at("loss"));
  }
}

TEST_CASE("A plugin that is switched on at an epoch has its parameters from the start, and resumes") {
  const TemporaryFolder folder;
  const Words switched = kRun + Words{"--plugin", plugin_file("gain") + ":factor=1.5,from_epoch=1", "--set",
                                      "train.on_switch=reset"};
  const std::string whole = folder.file("whole"), run = folder.file("stopped");
  CHECK(rewire_command(train(switched, whole)).err.empty());
  CHECK(read_text(whole + "/weights.safetensors") != read_text(whole_run() + "/weights.safetensors"));
  // The first epoch is that of the run without it.
  const std::vector<Json> with = timeless(metrics(whole)), without = timeless(metrics(whole_run()));
  for (std::size_t i = 0; i < 9; ++i) CHECK(with[i] == without[i]);
  CHECK(with[9] != without[9]);
  REQUIRE(interrupted(train(switched, run), run, {SIGKILL, 11, 18}).code == 128 + SIGKILL);
  CHECK(rewire_command({"train", "--resume", run, "--quiet"}).err.empty());
  CHECK(read_text(run + "/weights.safetensors") == read_text(whole + "/weights.safetensors"));
  // What the optimizer remembers is kept or forgotten at the switch.
  const std::string kept = folder.file("kept");
  CHECK(rewire_command(train(switched, kept, {"--set", "train.on_switch=keep"})).err.empty());
  CHECK(timeless(metrics(kept))[8] == with[8]);
  CHECK(timeless(metrics(kept))[9] != with[9]);
}

TEST_CASE(
    "A plugin that is switched off at an epoch and on again trains each epoch with what is on, and resumes") {
  const TemporaryFolder folder;
  const Words three = kRun + Words{"--set", "train.epochs=3", "--set", "schedule.name=constant"};
  const std::string factor = plugin_file("gain") + ":factor=1.5";
  const std::string on = folder.file("on"), off = folder.file("off"), both = folder.file("both");
  CHECK(rewire_command(train(three, on, {"--plugin", factor})).err.empty());
  CHECK(rewire_command(train(three, off, {"--plugin", factor + ",to_epoch=1"})).err.empty());
  const Words off_and_on = {"--plugin", factor + ",to_epoch=1", "--plugin", factor + ",from_epoch=2"};
  CHECK(rewire_command(train(three, both, off_and_on)).err.empty());
  const std::vector<Json> always = timeless(metrics(on)), first = timeless(metrics(off)),
                          back = timeless(metrics(both));
  REQUIRE(back.size() == 27);  // nine lines an epoch
  for (std::size_t i = 0; i < back.size(); ++i) {
    CAPTURE(i);
    if (i < 9) CHECK(back[i] == always[i]);
    if (i < 18) CHECK(back[i] == first[i]);
    if (i >= 9) CHECK(back[i] != always[i]);
    if (i >= 18) CHECK(back[i] != first[i]);
  }
  const std::string run = folder.file("stopped");
  // After the second switch.
  REQUIRE(interrupted(train(three, run, off_and_on), run, {SIGKILL, 19, 27}).code == 128 + SIGKILL);
  CHECK(rewire_command({"train", "--resume", run, "--quiet"}).err.empty());
  CHECK(read_text(run + "/weights.safetensors") == read_text(both + "/weights.safetensors"));
}

TEST_CASE("eval sees the network as it was when the run was stopped") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  const Words late = train(
      kRun, run, {"--plugin", plugin_file("gain") + ":factor=9,from_epoch=2", "--set", "train.epochs=3"});
  // In the second epoch; the plugin comes with the third.
  REQUIRE(interrupted(late, run, {SIGKILL, 10, 18}).code == 128 + SIGKILL);
  const Outcome eval = rewire_command({"eval", run, "--json", "--quiet"});
  CHECK(Json::parse(eval.out).at("loss") == metrics(run)[8].at("loss"));
  const Outcome later = rewire_command({"eval", run, "--json", "--quiet", "--epoch", "2"});
  CHECK(Json::parse(later.out).at("loss") != metrics(run)[8].at("loss"));
}

TEST_CASE("A run that began with a module keeps it") {
  const TemporaryFolder folder;
  const std::string file = folder.file("m.rir"), run = folder.file("run");
  write_text(file, rewire_command(Words{"dump"} + kRun + Words{"--stage", "ir"}).out);
  const Words settings(kRun.begin() + static_cast<std::ptrdiff_t>(kModel.size()), kRun.end());
  Words usable;  // a module has its batch and its rates
  for (std::size_t i = 0; i + 1 < settings.size(); i += 2) {
    const bool fixed =
        settings[i + 1].starts_with("model.") || settings[i + 1].find(".batch=") != std::string::npos;
    if (!fixed) usable = usable + Words{settings[i], settings[i + 1]};
  }
  CHECK(rewire_command(Words{"train", file, "--out", run, "--quiet"} + usable).err.empty());
  check_same_weights(run);
  write_text(file, "changed");
  const std::string moved = folder.file("moved");
  fs::rename(run, moved);
  CHECK(rewire_command({"train", "--resume", moved, "--quiet"}).err.empty());
  check_same_weights(moved);
  CHECK(rewire_command({"eval", moved, "--quiet"}).err.empty());
}

TEST_CASE("Only the last checkpoints and the best are kept, and what is none of them is left alone") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  const Words small = kRun + Words{"--set", "data.count=8", "--set", "train.keep=1"};
  CHECK(rewire_command(train(small, run, {"--set", "train.epochs=12"})).err.empty());
  CHECK(fs::exists(run + "/checkpoints/0012-00000012"));
  const auto best = [&] { return read_text(run + "/checkpoints/best"); };
  CHECK(read_text(run + "/checkpoints/last") == "0012-00000012\n");
  CHECK(checkpoints(run) == (best() == "0012-00000012\n" ? 1 : 2));
  fs::copy(run + "/checkpoints/0012-00000012", run + "/checkpoints/mine");
  write_text(run + "/checkpoints/0000-README", "mine");
  write_text(run + "/.weights.safetensors.1-0.tmp", "half-written");
  const Words resume = {"train", "--resume", run, "--quiet", "--set", "train.epochs=13"};
  // The last is the last by number, not by letter; its name must be its own.
  for (const char* name : {"9999-00000012", "10000-00000012"})
    fs::copy(run + "/checkpoints/0012-00000012", run + "/checkpoints/" + name);
  CHECK_THAT(rewire_command(resume).err,
             REWIRE_CATCH_CONTAINS(
                 "/checkpoints/10000-00000012/checkpoint.json belongs to the checkpoint 0012-00000012; "));
  for (const char* name : {"9999-00000012", "10000-00000012"}) fs::remove_all(run + "/checkpoints/" + name);
  CHECK(rewire_command(resume).err.empty());
  CHECK(fs::exists(run + "/checkpoints/0013-00000013"));
  CHECK(fs::exists(run + "/checkpoints/0012-00000012") == (best() == "0012-00000012\n"));
  CHECK(fs::exists(run + "/checkpoints/" + best().substr(0, 13)));
  CHECK(fs::exists(run + "/checkpoints/mine"));
  CHECK(fs::exists(run + "/checkpoints/0000-README"));
  CHECK_FALSE(fs::exists(run + "/.weights.safetensors.1-0.tmp"));
}

TEST_CASE("A terminal that has gone does not end a run") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  Words talkative = train(kRun, run);
  std::erase(talkative, "--quiet");
  CHECK(RunningCommand(talkative, {}, "", "/dev/full").wait().code == 0);
  check_same_run(run);
}

TEST_CASE("Two runs without a name do not meet") {
  const TemporaryFolder folder;
  const fs::path here = fs::current_path();
  fs::current_path(folder.path());
  const Words small = Words{"train"} + kRun + Words{"--set", "data.count=8", "--set", "train.epochs=1"};
  RunningCommand first(small), second(small);
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
  fs::current_path(here);
  CHECK(fs::exists(folder.file("runs/vit_tiny_28-none-s0/weights.safetensors")));
  CHECK(fs::exists(folder.file("runs/vit_tiny_28-none-s0-2/weights.safetensors")));
}

TEST_CASE("train.weights begins from a file") {
  const TemporaryFolder folder;
  const Workplace work;
  REQUIRE(rewire_command(Words{"init"} + kModel +
                         Words{"--output", folder.file("w"), "--set", "seed=5", "--quiet"})
              .code == 0);
  const std::string run = folder.file("run");
  CHECK(rewire_command(train(kRun, run,
                             {"--set", "train.weights=" + folder.file("w"), "--set", "optimizer.lr=0",
                              "--set", "train.epochs=1"}))
            .err.empty());
  CHECK(runtime::read_safetensors(run + "/weights.safetensors").tensors.at("head.weight").bytes().size() > 0);
  const auto got = runtime::read_safetensors(run + "/weights.safetensors"),
             want = runtime::read_safetensors(folder.file("w"));
  for (const auto& [name, tensor] : want.tensors) {
    CAPTURE(name);
    CHECK(std::ranges::equal(got.tensors.at(name).bytes(), tensor.bytes()));
  }
}

TEST_CASE("Weights that train.weights lacks are named") {
  const TemporaryFolder folder;
  const std::string file = folder.file("w");
  const Words deeper = {"--set", "model.depth=2"};
  REQUIRE(rewire_command(Words{"init"} + kModel + deeper + Words{"--output", file}).code == 0);
  const auto log_of = [&](const std::string& run, const Words& more) {
    const Outcome outcome = rewire_command(Words{"train"} + kModel + deeper +
                                           Words{"--set", "data.format=synthetic", "--set", "data.count=8",
                                                 "--set", "train.batch=8", "--set", "train.epochs=1", "--set",
                                                 "train.weights=" + file, "--out", folder.file(run)} +
                                           more);
    CHECK(outcome.code == 0);
    return outcome.err;
  };
  CHECK_THAT(log_of("all", {}), !REWIRE_CATCH_CONTAINS("lacks"));
  const Words more = {"--plugin", plugin_file("careless") + ":fault=axis",
                      "--other-strategy"};  // a weight for each join
  const std::string some =
      "rewire: info: " + file +
      ": 4 of the network's 36 weights are not in it and start fresh: 'blocks.0.join_attn.c', "
      "'blocks.0.join_mlp.c', 'blocks.1.join_attn.c' and 1 more\n";
  const std::string info = log_of("some", more);
  CHECK_THAT(info, REWIRE_CATCH_CONTAINS(some) && !REWIRE_CATCH_CONTAINS("'blocks.1.join_mlp.c'"));
  CHECK_THAT(log_of("debug", more + Words{"--log-level", "debug"}),
             REWIRE_CATCH_CONTAINS(some) &&
                 REWIRE_CATCH_CONTAINS("'blocks.1.join_attn.c', 'blocks.1.join_mlp.c'\n"));
}

}  // namespace
}  // namespace rewire::test
