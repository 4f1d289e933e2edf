// Places that commands may not write to, or should not: folders without permission, files that they read, a
// cache that cannot be made.
#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <optional>

#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

const Words kTrain =
    Words{"train"} + kModel + Words{"--set",  "data.format=synthetic", "--set", "data.count=64",
                                    "--set",  "train.batch=8",         "--set", "train.epochs=1",
                                    "--quiet"};

/// As a user whom permissions bind, root or not: what a thread gives up, its children lack. nullopt where
/// root may not give it up.
std::optional<Outcome> bound_by_permissions(const Words& words) {
  return std::async(std::launch::async,
                    [&]() -> std::optional<Outcome> {
                      for (const int power : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH}) {
                        if (::prctl(PR_CAPBSET_DROP, power) != 0 && ::geteuid() == 0) return std::nullopt;
                      }
                      return rewire_command(words);
                    })
      .get();
}

/// A folder that can be read, and nothing more, for a while.
class ReadOnly {
 public:
  explicit ReadOnly(std::string path) : path_(std::move(path)) {
    fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_exec);
  }
  ~ReadOnly() { fs::permissions(path_, fs::perms::owner_all); }
  ReadOnly(const ReadOnly&) = delete;
  ReadOnly& operator=(const ReadOnly&) = delete;

 private:
  std::string path_;
};

void check_refusal(const std::optional<Outcome>& asked, const std::string& message) {
  if (!asked) {
    WARN("root cannot give up its power over permissions here");
    return;
  }
  const Outcome& outcome = *asked;
  CHECK(outcome.err == "rewire: " + message + "\n");
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
}

TEST_CASE("A run into a folder without permission to write is refused, and so is one below it") {
  const TemporaryFolder folder;
  const std::string out = folder.file("out");
  fs::create_directory(out);
  {
    const ReadOnly kept(out);
    check_refusal(bound_by_permissions(kTrain + Words{"--out", out}),
                  "cannot write " + out + "/metrics.jsonl: Permission denied: choose another --out");
    check_refusal(bound_by_permissions(kTrain + Words{"--out", out + "/run"}),
                  "cannot make the folder " + out + "/run: Permission denied: choose another --out");
  }
  CHECK(fs::is_empty(out));
}

TEST_CASE("A run whose folder may not be written any more is not gone on with, and stays as it is") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  REQUIRE(rewire_command(kTrain + Words{"--out", run}).code == 0);
  const std::string recipe = read_text(run + "/recipe.toml");
  {
    const ReadOnly kept(run);
    check_refusal(bound_by_permissions({"train", "--resume", run, "--quiet", "--set", "train.epochs=2"}),
                  "cannot write " + run + "/metrics.jsonl: Permission denied: make " + run +
                      " writable, or continue in a copy of it");
    const std::optional<Outcome> evaluated = bound_by_permissions({"eval", run, "--quiet"});
    if (evaluated) CHECK(evaluated->code == 0);
  }
  CHECK(read_text(run + "/recipe.toml") == recipe);
  CHECK(rewire_command({"train", "--resume", run, "--quiet", "--set", "train.epochs=2"}).code == 0);
}

TEST_CASE("An output in a folder without permission to write is refused before any work") {
  const Workplace work;
  fs::create_directory(work.file("kept"));
  const ReadOnly kept(work.file("kept"));
  const std::string out = work.file("kept/out.npy");
  check_refusal(bound_by_permissions(Words{"run"} + kModel +
                                     Words{"--weights", work.file("w.safetensors"), "--input",
                                           work.file("x.npy"), "--output", out}),
                "cannot write " + out + ": Permission denied");
}

TEST_CASE("An output that is a file the command reads is refused, by whatever name") {
  const Workplace work;
  REQUIRE(work.init(kModel).code == 0);
  const std::string weights = read_text(work.file("w.safetensors")), input = read_text(work.file("x.npy"));
  fs::create_hard_link(work.file("x.npy"), work.file("same.npy"));
  fs::create_symlink("w.safetensors", work.file("same.safetensors"));
  const auto message = [&](const std::string& output, const std::string& read) {
    return "--output " + work.file(output) + " is also an input, " + work.file(read) + ": choose another";
  };
  check_refusal(work.run(kModel, "x.npy", "same.npy"), message("same.npy", "x.npy"));
  check_refusal(work.run(kModel, "x.npy", "w.safetensors"), message("w.safetensors", "w.safetensors"));
  const auto with_labels = [&](const std::string& verb, const std::string& labels,
                               const std::string& output) {
    return rewire_command(Words{verb} + kModel +
                          Words{"--weights", work.file("w.safetensors"), "--input", work.file("xs.npy"),
                                "--labels", work.file(labels), "--output", work.file(output)});
  };
  check_refusal(with_labels("grad", "y.npy", "same.safetensors"),
                message("same.safetensors", "w.safetensors"));
  check_refusal(with_labels("step", "ys.npy", "ys.npy"), message("ys.npy", "ys.npy"));
  // The network itself, as a module or as a recipe.
  const Outcome dumped = rewire_command(Words{"dump"} + kModel + Words{"--quiet"});
  write_text(work.file("net.rir"), dumped.out);
  check_refusal(rewire_command({"run", work.file("net.rir"), "--weights", work.file("w.safetensors"),
                                "--input", work.file("x.npy"), "--output", work.file("net.rir")}),
                message("net.rir", "net.rir"));
  write_text(work.file("recipe.toml"), "[model]\nname = \"vit_tiny_28\"\n");
  check_refusal(rewire_command({"init", work.file("recipe.toml"), "--output", work.file("recipe.toml")}),
                message("recipe.toml", "recipe.toml"));
  CHECK(read_text(work.file("net.rir")) == dumped.out);
  CHECK(read_text(work.file("w.safetensors")) == weights);
  CHECK(read_text(work.file("x.npy")) == input);
}

TEST_CASE("Without a place for compiled kernels they are compiled each time, and one line says so") {
  const TemporaryFolder folder;
  RunningCommand command(Words{"bench"} + kModel + Words{"--set", "train.batch=2", "--json"},
                         {"XDG_CACHE_HOME=/proc/none"});
  const Outcome outcome = command.wait();
  CHECK(outcome.code == 0);
  CHECK_THAT(
      outcome.err,
      REWIRE_CATCH_CONTAINS(
          "warning: kernel cache /proc/none/rewire: No such file or directory; without a cache every start "
          "compiles all kernels and no choice is timed: set XDG_CACHE_HOME to a folder of yours\n"));
  CHECK(outcome.err.find("kernel cache") == outcome.err.rfind("kernel cache"));
}

}  // namespace
}  // namespace rewire::test
