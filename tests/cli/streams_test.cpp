// Streams and signals as a shell, a service or a stranger's file leaves them.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "ir/printable.h"
#include "tests/cli/fixture.h"
#include "tests/cli/started.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

const Words kShort =
    kModel + Words{"--set", "data.format=synthetic", "--set", "data.count=64",     "--set", "train.batch=8",
                   "--set", "train.epochs=1",        "--set", "train.log_every=1", "--set", "eval.batch=32"};
const Words kEndless =
    kShort + Words{"--set", "train.epochs=100000", "--set", "eval.every=100000", "--quiet"};

template <class Condition>
bool soon(Condition condition, std::chrono::seconds limit = std::chrono::seconds(60)) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

std::string metrics_text(const std::string& run) {
  return read_text(run + "/metrics.jsonl");
}

std::size_t files_in(const std::string& folder) {
  std::error_code error;
  std::size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) count += entry.is_regular_file();
  return count;
}

TEST_CASE("A standard stream that is closed is never another file") {
  const TemporaryFolder folder;
  const std::string plain = folder.file("plain");
  REQUIRE(rewire_command(Words{"train"} + kShort + Words{"--out", plain}).code == 0);
  const std::string weights = read_text(plain + "/weights.safetensors");
  for (unsigned closed = 1; closed < 8; ++closed) {
    CAPTURE(closed);
    const std::string run = folder.file("run" + std::to_string(closed));
    StartedCommand command(Words{"train"} + kShort + Words{"--out", run}, [closed] {
      for (int stream = 0; stream < 3; ++stream) {
        if ((closed & 1U << stream) != 0) ::close(stream);
      }
    });
    const Outcome outcome = command.wait();
    const bool out = (closed & 2) == 0, err = (closed & 4) == 0;
    CHECK(outcome.code == (out ? 0 : 2));
    if (!out && err)
      CHECK_THAT(outcome.err,
                 Catch::Matchers::EndsWith("rewire: cannot write to stdout: Bad file descriptor\n"));
    CHECK(read_text(run + "/weights.safetensors") == weights);
    std::istringstream lines(metrics_text(run));
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count) CHECK(Json::accept(line));
    CHECK(count == 9);
  }
}

TEST_CASE("A signal that is ignored where the program starts does not stop it") {
  for (const int ignored : {SIGHUP, SIGINT}) {
    CAPTURE(ignored);
    const TemporaryFolder folder;
    const std::string run = folder.file("run");
    StartedCommand command(Words{"train"} + kEndless + Words{"--out", run},
                           [ignored] { ::signal(ignored, SIG_IGN); });
    REQUIRE(soon([&] { return !metrics_text(run).empty(); }));
    command.signal(ignored);
    command.signal(ignored);
    const std::size_t before = metrics_text(run).size();
    CHECK(soon([&] { return metrics_text(run).size() > before + 2000; }));
    CHECK(command.running());
    command.signal(SIGTERM);
    const Outcome outcome = command.wait();
    CHECK(outcome.code == 128 + SIGTERM);
    CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS("stopped by signal 15 after step "));
  }
}

/// A network whose kernels take half a minute, and a folder for them that is empty.
const Words kLarge = {"vit_s16_224",   "--set", "data.format=synthetic", "--set", "data.count=64", "--set",
                      "train.batch=2", "--set", "eval.batch=3",          "--set", "train.epochs=1"};

/// Sends SIGTERM once kernels are being compiled into `cache`, and waits; how long that took.
double seconds_to_stop(StartedCommand& command, const std::string& cache, Outcome& outcome) {
  REQUIRE(soon([&] { return files_in(cache) > 2 || !command.running(); }));
  const auto start = std::chrono::steady_clock::now();
  command.signal(SIGTERM);
  outcome = command.wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr const char* kNothingDone =
    "rewire: stopped by signal 15 before its first step: nothing has changed\n";

TEST_CASE("SIGTERM while compiling ends every command within two seconds and leaves no run") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run"), sweep = folder.file("s.toml");
  write_text(
      folder.file("r.toml"),
      "[model]\nname = \"vit_s16_224\"\n[data]\nformat = \"synthetic\"\ncount = 64\n[train]\nbatch = 2\n");
  write_text(sweep, "recipe = \"" + folder.file("r.toml") + "\"\nplugins = [\"none\"]\nseeds = [0]\n");
  struct Case {
    Words arguments;
    std::string err;
  };
  const std::vector<Case> cases = {
      {Words{"train"} + kLarge + Words{"--out", run}, kNothingDone},
      {{"sweep", sweep, "--out", folder.file("out"), "--quiet"},
       "rewire: stopped by signal 15; the same command continues\n"},
      {{"bench", "vit_s16_224", "--batch", "2"}, ""},
      {{"verify", "vit_tiny_28", "--set", "model.depth=1"}, ""},
  };
  for (const auto& [arguments, err] : cases) {
    CAPTURE(arguments.front());
    const TemporaryFolder cache;
    StartedCommand command(arguments, [] {}, {"XDG_CACHE_HOME=" + cache.path().string()});
    Outcome outcome;
    CHECK(seconds_to_stop(command, cache.path().string(), outcome) < 2);
    CHECK(outcome.code == 128 + SIGTERM);
    CHECK(without_progress(outcome.err) == err);
    CHECK_FALSE(fs::exists(run));
    CHECK_FALSE(fs::exists(folder.file("out") + "/runs/none-s0"));
  }
}

TEST_CASE("SIGTERM while a run that goes on is compiling leaves it as it was") {
  const TemporaryFolder folder, cache;
  const std::string run = folder.file("run"), before = folder.file("before");
  Outcome outcome =
      rewire_command(Words{"train"} + kShort + Words{"--out", run, "--set", "train.log_every=8"});
  REQUIRE(outcome.code == 0);
  fs::copy(run, before, fs::copy_options::recursive);
  StartedCommand command({"train", "--resume", run, "--set", "train.epochs=3"}, [] {},
                         {"XDG_CACHE_HOME=" + cache.path().string()});
  REQUIRE(soon([&] { return files_in(cache.path().string()) > 0 || !command.running(); }));
  command.signal(SIGTERM);
  outcome = command.wait();
  CHECK(outcome.code == 128 + SIGTERM);
  CHECK(outcome.err == kNothingDone);
  CHECK(files_in(run) == files_in(before));
  for (const char* name : {"recipe.toml", "metrics.jsonl", "choices.json", "weights.safetensors"})
    CHECK(read_text(run + "/" + name) == read_text(before + "/" + name));
}

/// A name that clears the screen, sets the title, turns the text around, in controls of one byte and of two,
/// and is no UTF-8.
const std::string kEvil =
    "\x1b[2J\x1b]0;x\x07\xc2\x9b\x9b\xe2\x80\xae\xe2\x80\xa8\xff"
    "e";
const std::string kShown = "\\x1b[2J\\x1b]0;x\\x07\\u{9b}\\x9b\\u{202e}\\u{2028}\\xffe";

void check_harmless(const std::string& text) {
  CHECK(visible_lines(text) == text);
}

TEST_CASE("What a name holds never acts on a terminal") {
  const TemporaryFolder folder;
  const std::string toml = folder.file(kEvil + ".toml"), rir = folder.file(kEvil + ".rir");
  const std::string so = folder.file(kEvil + ".so");
  write_text(folder.file("plugin.toml"), "[[plugin]]\nname = \"\\u001b[2J\\u009b\\u202e\\u000a\"\n");
  write_text(folder.file("key.toml"), "[train]\n\"\\u001b[2J\\u009b\\u202e\\u000a\" = 1\n");
  write_text(folder.file("name.toml"), "[model]\nname = \"\\u001b[2J\\u009b\\u202e\\u000a\"\n");
  write_text(folder.file("path.toml"), "[data]\npath = \"/\\u001b[2J\\u009b\\u202e\"\n");
  write_text(rir, "module @m {\n  \x1b[2J\xc2\x9b\xe2\x80\xae");
  write_text(so, "no library");
  const std::vector<Words> commands = {
      {kEvil},
      {"dump", kEvil},
      {"dump", kEvil + "\nrewire: done"},
      {"dump", toml},
      {"dump", rir},
      {"dump", "--" + kEvil},
      {"dump", "vit_tiny_28", "--stage", kEvil},
      {"dump", "vit_tiny_28", "--set", kEvil},
      {"dump", "vit_tiny_28", "--set", "train." + kEvil + "=1"},
      {"dump", "vit_tiny_28", "--plugin", kEvil},
      {"dump", "vit_tiny_28", "--plugin", so},
      {"dump", "vit_tiny_28", "--stage", "step", "--choices", kEvil},
      {"dump", folder.file("plugin.toml")},
      {"dump", folder.file("key.toml")},
      {"dump", folder.file("name.toml")},
      {"plugins", "--plugin-path", folder.path().string()},
      {"plugins", "info", so},
      {"doctor", "--plugin-path", folder.file(kEvil)},
      {"train", folder.file("path.toml"), "--out", folder.file("never")},
      {"eval", folder.file(kEvil)},
      {"sweep", toml},
      {"analyze", "vit_tiny_28", "--init", "--against", kEvil},
      {"run", "vit_tiny_28", "--weights", kEvil, "--input", kEvil, "--output", folder.file(kEvil + ".npy")},
  };
  for (const Words& command : commands) {
    CAPTURE(visible(command.back()), command.front());
    const Outcome outcome = rewire_command(command);
    const bool asks = command.front() == "plugins" || command.front() == "doctor";
    if (!asks) CHECK(outcome.code == 2);
    check_harmless(outcome.out);
    check_harmless(outcome.err);
    CAPTURE(outcome.err);
    const bool shows_place = command.back() == rir;
    if (!asks) CHECK(std::ranges::count(outcome.err, '\n') == (shows_place ? 3 : 1));
  }
  CHECK(rewire_command({"dump", kEvil}).err.find("'" + kShown + "'") != std::string::npos);
}

TEST_CASE("Results name what they name visibly, as text and as JSON") {
  const TemporaryFolder folder;
  const std::string run = folder.file(kEvil);
  const Outcome trained = rewire_command(Words{"train"} + kShort + Words{"--out", run});
  REQUIRE(trained.code == 0);
  check_harmless(trained.out);
  check_harmless(trained.err);
  CHECK_THAT(trained.out, Catch::Matchers::EndsWith("/" + kShown + "\n"));
  CHECK_THAT(trained.err, REWIRE_CATCH_CONTAINS(kShown));
  const Outcome evaluated = rewire_command({"eval", run, "--json"});
  REQUIRE(evaluated.code == 0);
  check_harmless(evaluated.out);
  const std::string weights = Json::parse(evaluated.out).at("weights");
  CHECK(weights.find("\x1b[2J\x1b]0;x\x07\xc2\x9b\xef\xbf\xbd\xe2\x80\xae\xe2\x80\xa8\xef\xbf\xbd"
                     "e/") != std::string::npos);  // bytes that are no UTF-8 as U+FFFD
}

TEST_CASE("A module's names of any bytes come out of dump as they can be read again") {
  const TemporaryFolder folder;
  std::string module = rewire_command(Words{"dump"} + kModel + Words{"--stage", "ir"}).out;
  const std::size_t at = module.find('@') + 1;
  module.replace(at, module.find(' ', at) - at, "\"" + kEvil + "\"");
  const std::string raw = folder.file("raw.rir"), printed = folder.file("printed.rir");
  write_text(raw, module);
  const Outcome first = rewire_command({"dump", raw, "--stage", "ir"});
  REQUIRE(first.code == 0);
  check_harmless(first.out);
  write_text(printed, first.out);
  const Outcome second = rewire_command({"dump", printed, "--stage", "ir"});
  CHECK(second.out == first.out);
  CHECK_THAT(first.out, REWIRE_CATCH_CONTAINS("\\x1b[2J\\x1b]0;x\\x07\\xc2\\x9b\\x9b\\xe2\\x80\\xae"));
}

}  // namespace
}  // namespace rewire::test
