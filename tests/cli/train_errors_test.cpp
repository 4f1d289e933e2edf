// What training refuses, and what it leaves when it fails: one clear line, exit code 2, nothing half-written.
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/io/safetensors.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

const Words kSteps =
    kModel + Words{"--set", "train.batch=8", "--set", "train.epochs=2", "--set", "eval.batch=32"};
const Words kOnFiles = kSteps + Words{"--quiet"};
const Words kRefusedRun =
    kSteps + Words{"--set", "data.format=synthetic", "--set", "data.count=64", "--quiet"};

/// The refusal, and that no run folder was made.
void check_refused_run(const Words& more, const std::string& message, const Words& run = kRefusedRun) {
  const TemporaryFolder folder;
  check_refusal(rewire_command(Words{"train"} + run + Words{"--out", folder.file("run")} + more), message);
  CHECK(folder.entries() == 0);
}

TEST_CASE("A request that contradicts itself is refused") {
  check_refusal(rewire_command({"train"}),
                "train: MODEL is required (or --resume RUN); see rewire train --help");
  check_refusal(rewire_command({"train", "vit_tiny_28", "--resume", "r"}),
                "train: --resume r has its own recipe: drop vit_tiny_28");
  check_refusal(rewire_command({"train", "--resume", "r", "--out", "o"}),
                "train: --resume continues in r: drop --out");
  check_refusal(rewire_command({"train", "--resume", "/nowhere"}),
                "/nowhere is not a folder; give the folder of a run of `rewire train`");
  check_refusal(rewire_command({"eval", "vit_tiny_28"}),
                "vit_tiny_28 is not a run's folder: give its weights with --weights FILE");
}

TEST_CASE("Data that is missing, truncated or no match for the network is refused before a folder is made") {
  check_refused_run(
      {"--set", "data.format=idx", "--set", "data.path=/nowhere"},
      "cannot find /nowhere/train-images-idx3-ubyte or train-images-idx3-ubyte.gz; set data.path to the "
      "folder that holds it",
      kOnFiles);
  check_refused_run({"--set", "train.batch=65"},
                    "train.batch is 65, but synthetic data has only 64 training samples");
  check_refused_run({"--set", "train.accumulate=9"},
                    "an epoch has 8 batches of 8, fewer than one step of train.accumulate=9");
  check_refused_run(
      {"--set", "schedule.name=cosine", "--set", "schedule.warmup_epochs=2"},
      "the cosine schedule has 16 steps, of which 16 are warm-up; train longer or warm up less");

  const TemporaryFolder data;
  for (const char* name : {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"}) {
    std::ofstream(data.file(name), std::ios::binary)
        << std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10) << "\x63\x60";
  }
  check_refused_run({"--set", "data.format=idx", "--set", "data.path=" + data.path().string()},
                    data.file("train-images-idx3-ubyte.gz") + ": truncated gzip data", kOnFiles);
}

TEST_CASE("A plugin whose first epoch is none of the run's is refused before a folder is made") {
  const std::string gain = plugin_file("gain");
  check_refused_run({"--plugin", gain + ":from_epoch=2"},
                    "plugin 'gain': from_epoch=2 is never reached: the last of train.epochs=2 is epoch 1; "
                    "lower it, or train longer");
  check_refused_run({"--plugin", gain, "--plugin", gain + ":slot=shortcut,from_epoch=1000,to_epoch=1001"},
                    "plugin 'gain': from_epoch=1000 is never reached: the last of train.epochs=2 is epoch 1; "
                    "lower it, or train longer");
  check_refused_run({"--plugin", gain + ":from_epoch=1,to_epoch=1"},
                    "plugin 'gain': from_epoch=1 and to_epoch=1 leave no epoch: to_epoch is the first one "
                    "off again");
  // What only looks at the network has no epochs to end.
  for (const char* command : {"dump", "verify"}) {
    CAPTURE(command);
    CHECK(rewire_command(Words{command} + kModel + Words{"--quiet", "--plugin", gain + ":from_epoch=1000"})
              .code == 0);
  }
}

TEST_CASE("An initialisation that comes too late to be applied is told of in one line, where there is one") {
  const Words loud = Words(kRefusedRun.begin(), kRefusedRun.end() - 1) + Words{"--log-level", "warning"};
  const auto messages = [&](const std::string& plugin) {
    const TemporaryFolder folder;
    const Outcome outcome =
        rewire_command(Words{"train"} + loud + Words{"--out", folder.file("run"), "--plugin", plugin});
    CHECK(outcome.code == 0);
    return outcome.err;
  };
  CHECK(messages(plugin_file("gain") + ":from_epoch=1") ==
        "rewire: warning: plugin 'gain' is switched on at epoch 1: its initialisation is not applied to "
        "'blocks.0.attn.proj.weight' and 3 more weights, which are trained before\n");
  CHECK(messages(plugin_file("gain") + ":to_epoch=1").empty());
  CHECK(messages(plugin_file("careless") + ":from_epoch=1").empty());  // its hook writes nothing
}

TEST_CASE("Weights that are corrupt or of the wrong shape are refused before a folder is made") {
  const Workplace work;
  REQUIRE(work.init(kModel + Words{"--set", "model.dim=12"}).code == 0);
  check_refused_run(
      {"--set", "train.weights=" + work.file("w.safetensors")},
      work.file("w.safetensors") + ": 'cls_token' has the shape [1,1,12], but the model's has [1,1,8]");
  write_text(work.file("w.safetensors"), "nothing of the kind");
  const TemporaryFolder folder;
  const Outcome outcome = rewire_command(
      Words{"train"} + kRefusedRun +
      Words{"--out", folder.file("run"), "--set", "train.weights=" + work.file("w.safetensors")});
  CHECK(outcome.code == 2);
  CHECK(folder.entries() == 0);
}

TEST_CASE("A folder that is taken or cannot be written is refused") {
  const TemporaryFolder folder;
  write_text(folder.file("notes.txt"), "mine");
  const std::string path = folder.path().string();
  check_refusal(rewire_command(Words{"train"} + kRefusedRun + Words{"--out", path}),
                path + " is not empty: choose another --out");
  check_refusal(rewire_command(Words{"train"} + kRefusedRun + Words{"--out", folder.file("notes.txt")}),
                folder.file("notes.txt") + " is not a folder: choose another --out");
  CHECK(read_text(folder.file("notes.txt")) == "mine");
  // /proc holds no files of ours, not even root's.
  const Outcome outcome = rewire_command(Words{"train"} + kRefusedRun + Words{"--out", "/proc/run"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS("rewire: cannot make the folder /proc/run: "));
}

TEST_CASE("A loss that is not finite stops the run and keeps the state before it") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  const Outcome outcome =
      rewire_command(Words{"train"} + kRefusedRun +
                     Words{"--out", run, "--set", "optimizer.lr=1e30", "--set", "train.checkpoint_every=1"});
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err,
             REWIRE_CATCH_CONTAINS("rewire: step 2 (epoch 1): the loss or a gradient is not finite: "
                                   "the first non-finite tensor is the result of ") &&
                 REWIRE_CATCH_CONTAINS("; " + run +
                                       "/checkpoints/0000-00000001 holds the state before "
                                       "it: lower optimizer.lr, or set train.clip_norm\n"));
  CHECK_FALSE(fs::exists(run + "/weights.safetensors"));
  // The state is whole: evaluation reads it, and the same step fails in the same way.
  CHECK_THAT(rewire_command({"eval", run, "--quiet"}).err,
             REWIRE_CATCH_CONTAINS("/0000-00000001/weights.safetensors: the loss on the "));
  CHECK(rewire_command({"train", "--resume", run, "--quiet"}).err == outcome.err);
}

TEST_CASE("A loss that is not finite leaves the checkpoint before it, whatever train.keep says") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  const Outcome outcome =
      rewire_command(Words{"train"} + kRefusedRun +
                     Words{"--out", run, "--set", "train.keep=1", "--set", "schedule.name=multistep", "--set",
                           "schedule.milestones=[1]", "--set", "schedule.gamma=1e33"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err,
             REWIRE_CATCH_CONTAINS("; remove it to resume from " + run + "/checkpoints/0001-00000008\n"));
  CHECK(fs::exists(run + "/checkpoints/0001-00000008"));
}

TEST_CASE("Micro-batches before one that is not finite are not part of the state") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  const Outcome outcome = rewire_command(Words{"train"} + kRefusedRun +
                                         Words{"--out", run, "--set", "optimizer.lr=1e30", "--set",
                                               "train.accumulate=2", "--set", "model.dropout=0.1"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS("rewire: step 2 (epoch 1): ") &&
                              REWIRE_CATCH_CONTAINS("the first non-finite tensor is the result of "));
  const auto state = runtime::read_safetensors(run + "/checkpoints/0000-00000001/state.safetensors");
  CHECK(state.tensors.at("train.finite").as<std::uint8_t>()[0] == 1);
  for (const auto& [name, tensor] : state.tensors) {
    CHECK_FALSE(name.starts_with("accumulate."));
    CHECK(name != "train.micro_step");
  }
}

TEST_CASE("An evaluation whose loss is not finite ends the run") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  const Outcome outcome = rewire_command(
      Words{"train"} + kRefusedRun +
      Words{"--out", run, "--set", "data.count=8", "--set", "train.epochs=1", "--set", "optimizer.lr=1e30"});
  check_refusal(
      outcome,
      "step 1 (epoch 1): the loss of the evaluation after it is not finite; " + run +
          "/checkpoints/0000-00000001 holds the weights: lower optimizer.lr, or set train.clip_norm");
  CHECK_FALSE(fs::exists(run + "/weights.safetensors"));
}

/// No file of this process and its children grows beyond so many bytes, while it lives: a disk that is full.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const struct rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  struct rlimit before_{};
};

TEST_CASE("No room for a checkpoint: the one before survives, and the run goes on when there is") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run"), whole = folder.file("whole");
  REQUIRE(rewire_command(Words{"train"} + kRefusedRun + Words{"--out", whole}).code == 0);
  REQUIRE(rewire_command(Words{"train"} + kRefusedRun +
                         Words{"--out", run, "--set", "train.epochs=1", "--set", "schedule.name=constant"})
              .code == 0);
  const std::string survivor = run + "/checkpoints/0001-00000008";
  const std::string before = read_text(survivor + "/state.safetensors");
  Outcome outcome;
  {
    const FileLimit limit(fs::file_size(survivor + "/weights.safetensors") + 100);  // the state is larger
    outcome = rewire_command({"train", "--resume", run, "--quiet", "--set", "train.epochs=2"});
  }
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err,
             REWIRE_CATCH_CONTAINS("rewire: step 16: cannot write " + run + "/checkpoints/.0002-00000016.") &&
                 REWIRE_CATCH_CONTAINS("/state.safetensors: File too large; " + survivor +
                                       " is intact: fix this, then rewire train --resume " + run + "\n"));
  const auto is_folder = [](const fs::directory_entry& entry) { return entry.is_directory(); };
  CHECK(std::count_if(fs::directory_iterator(run + "/checkpoints"), {}, is_folder) == 1);
  CHECK(read_text(survivor + "/state.safetensors") == before);
  CHECK(rewire_command({"train", "--resume", run, "--quiet"}).err.empty());
  CHECK(read_text(run + "/weights.safetensors") == read_text(whole + "/weights.safetensors"));
}

TEST_CASE("No room for a line of metrics: the run ends with whole lines and its checkpoint") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  REQUIRE(
      rewire_command(Words{"train"} + kRefusedRun + Words{"--out", run, "--set", "train.log_every=1"}).code ==
      0);
  const std::string lines = read_text(run + "/metrics.jsonl");
  REQUIRE(lines.size() > read_text(run + "/recipe.toml").size() + 100);  // which a resumed run writes too
  Outcome outcome;
  {
    const FileLimit limit(lines.size() + 50);
    outcome = rewire_command({"train", "--resume", run, "--quiet", "--set", "train.epochs=3"});
  }
  check_refusal(outcome, "step 17: cannot write " + run + "/metrics.jsonl: File too large; " + run +
                             "/checkpoints/0002-00000016 is intact: fix this, then rewire train --resume " +
                             run);
  CHECK(read_text(run + "/metrics.jsonl") == lines);
  CHECK(rewire_command({"train", "--resume", run, "--quiet"}).err.empty());
}

TEST_CASE("A run that fails before it has anything to show leaves no folder; one that has says what to do") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run"), whole = folder.file("whole");
  REQUIRE(rewire_command(Words{"train"} + kRefusedRun + Words{"--out", whole, "--set", "train.log_every=1"})
              .code == 0);
  Outcome outcome;
  {
    const FileLimit limit(300);  // enough for a message
    outcome = rewire_command(Words{"train"} + kRefusedRun + Words{"--out", run});
  }
  check_refusal(outcome, "cannot write " + run + "/recipe.toml: File too large");
  CHECK_FALSE(fs::exists(run));
  fs::create_directory(run);  // one that was there stays
  {
    const FileLimit limit(300);  // enough for a message
    outcome = rewire_command(Words{"train"} + kRefusedRun + Words{"--out", run});
  }
  CHECK(outcome.code == 2);
  CHECK(fs::is_empty(run));

  {
    const FileLimit limit(fs::file_size(whole + "/checkpoints/0001-00000008/weights.safetensors") - 1);
    outcome =
        rewire_command(Words{"train"} + kRefusedRun +
                       Words{"--out", run, "--set", "train.log_every=1", "--set", "train.events=false"});
  }
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err,
             REWIRE_CATCH_CONTAINS("rewire: step 8: cannot write " + run + "/checkpoints/.0001-00000008.") &&
                 REWIRE_CATCH_CONTAINS(
                     "File too large; no checkpoint had been written before: fix this and train again\n"));
  CHECK(rewire_command({"train", "--resume", run, "--quiet"}).err.empty());
  CHECK(read_text(run + "/weights.safetensors") == read_text(whole + "/weights.safetensors"));
}

TEST_CASE("A resume that cannot be is refused and changes nothing") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  REQUIRE(rewire_command(Words{"train"} + kRefusedRun + Words{"--out", run}).code == 0);
  const std::string recipe = read_text(run + "/recipe.toml");
  const std::string last = run + "/checkpoints/0002-00000016";
  const auto resume = [&](const std::string& setting) {
    return rewire_command({"train", "--resume", run, "--quiet", "--set", setting});
  };
  check_refusal(resume("seed=7"), "train: --set seed=7: a run keeps its seed; begin a new run for another");
  check_refusal(resume("train.epochs=1"), last + ": 2 epochs were begun, more than train.epochs=1");
  check_refusal(
      resume("optimizer.name=sgd"),
      last + "/state.safetensors lacks 'sgd.momentum.cls_token' f32[1,1,8]: the optimizer is not the run's");
  CHECK(read_text(run + "/recipe.toml") == recipe);
  const Outcome other = rewire_command({"train", "--resume", run, "--plugin", plugin_file("gain")});
  CHECK(other.code == 0);
  CHECK_THAT(other.err, REWIRE_CATCH_CONTAINS("warning") &&
                            REWIRE_CATCH_CONTAINS(": the plugins were none and are now gain: "));
}

TEST_CASE("A corrupt checkpoint, or one of another network, is refused by name") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  REQUIRE(
      rewire_command(Words{"train"} + kRefusedRun + Words{"--out", run, "--set", "train.epochs=1"}).code ==
      0);
  const std::string last = run + "/checkpoints/0001-00000008";
  check_refusal(rewire_command({"train", "--resume", run, "--quiet", "--set", "model.dim=12"}),
                last + "/weights.safetensors: 'cls_token' is f32[1,1,8], but the network's is f32[1,1,12]");
  const std::string progress = read_text(last + "/checkpoint.json");
  write_text(last + "/checkpoint.json", "{\"format\": 6}");
  const Outcome corrupt = rewire_command({"train", "--resume", run, "--quiet"});
  CHECK(corrupt.code == 2);
  CHECK_THAT(corrupt.err, REWIRE_CATCH_CONTAINS("rewire: " + last + "/checkpoint.json has no "));
  write_text(last + "/checkpoint.json", progress);
  write_text(run + "/metrics.jsonl", "");
  const Outcome cut = rewire_command({"train", "--resume", run, "--quiet"});
  CHECK(cut.code == 2);
  CHECK_THAT(cut.err, REWIRE_CATCH_CONTAINS(run + "/metrics.jsonl has 0 bytes, fewer than the "));
}

TEST_CASE("Two processes do not train in one folder") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  RunningCommand first(Words{"train"} + kRefusedRun +
                       Words{"--out", run, "--set", "train.epochs=100000", "--set", "eval.every=100000"});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (first.running() && !fs::exists(run + "/metrics.jsonl") &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  REQUIRE(fs::exists(run + "/metrics.jsonl"));
  REQUIRE(first.running());
  check_refusal(rewire_command({"train", "--resume", run, "--quiet"}),
                "another process is training in " + run);
}

}  // namespace
}  // namespace rewire::test
