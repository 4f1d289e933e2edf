// The libraries that a run was made with: kept in its folder, and taken where a plugin has changed or gone.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/io/files.h"
#include "runtime/io/sha256.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const Words kPluginRun = kModel + Words{"--set", "data.format=synthetic", "--set", "data.count=40",
                                        "--set", "train.batch=8",         "--set", "train.threads=1"};

int mode_of(const std::string& path) {
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return static_cast<int>(status.st_mode & 0777U);
}

/// A user, a plugin of theirs that nobody else has (gain, with more bytes behind its sections), and a run
/// that it was trained in for one epoch of two.
class TrainedRun {
 public:
  TrainedRun() {
    static int count = 0;
    write_text(plugin, read_text(plugin_file("gain")) + "trained" + std::to_string(++count));
    sha256 = runtime::sha256_hex(runtime::read_file(plugin));
    const Words train = Words{"train"} + kPluginRun + Words{"--plugin", plugin + ":factor=0.5", "--quiet"};
    REQUIRE(
        (*this)(train + Words{"--set", "train.epochs=2", "--set", "train.max_steps=5", "--out", run}).code ==
        0);
    REQUIRE((*this)(train + Words{"--set", "train.epochs=2", "--out", whole}).code == 0);
    copy = run + "/plugins/gain-" + sha256.substr(0, 12) + ".so";
    const Outcome evaluated = eval();
    REQUIRE(evaluated.err.empty());
    loss = json::parse(evaluated.out).at("loss");
  }
  Outcome operator()(const Words& words) const {
    return RunningCommand(words, {"XDG_DATA_HOME=" + folder.file("data")}).wait();
  }
  Outcome eval(const Words& more = {}) const { return (*this)(Words{"eval", run, "--json"} + more); }
  void check_loss(const Outcome& outcome) const {
    REQUIRE(outcome.code == 0);
    CHECK(json::parse(outcome.out).at("loss") == loss);
  }

  TemporaryFolder folder;
  std::string plugin = folder.file("mine.so"), run = folder.file("run"), whole = folder.file("whole");
  std::string sha256, copy;
  double loss = 0;
};

bool is_one_line(const std::string& text) {
  return std::ranges::count(text, '\n') == 1;
}

TEST_CASE("A run folder keeps a private copy of each plugin, and says which") {
  const TrainedRun user;
  CHECK(read_text(user.copy) == read_text(user.plugin));
  CHECK(mode_of(user.copy) == 0600);
  CHECK(mode_of(user.run + "/plugins") == 0700);
  const json record = json::parse(read_text(user.run + "/plugins.json")).at("plugins").at(0);
  CHECK(record.at("name") == "gain");
  CHECK(record.at("path") == user.plugin);
  CHECK(record.at("sha256") == user.sha256);
  CHECK(user.run + "/" + record.at("copy").get<std::string>() == user.copy);
}

TEST_CASE("eval takes the run's copy of a plugin that was rebuilt, and says so in one line") {
  const TrainedRun user;
  // No other build of gain: it does not even take gain's parameters.
  write_text(user.plugin, read_text(plugin_file("careless")));
  const Outcome rebuilt = user.eval();
  user.check_loss(rebuilt);
  CHECK(is_one_line(rebuilt.err));
  CHECK_THAT(
      rebuilt.err,
      REWIRE_CATCH_CONTAINS("rewire: warning: plugin 'gain' was rebuilt since the run (SHA-256 " +
                            user.sha256.substr(0, 12) + " then, ") &&
          REWIRE_CATCH_CONTAINS("the run's copy is used, " + user.copy + "; --plugin chooses another\n"));
  fs::remove(user.plugin);
  const Outcome gone = user.eval();
  user.check_loss(gone);
  CHECK(gone.err == "rewire: warning: plugin 'gain' is no longer found as '" + user.plugin +
                        "': the run's copy is used, " + user.copy + "; --plugin chooses another\n");
}

TEST_CASE("--resume goes on with the run's copy, to the bits of a run whose plugin stayed") {
  const TrainedRun user;
  fs::remove(user.plugin);
  const std::string record = read_text(user.run + "/plugins.json");
  const Outcome resumed =
      user({"train", "--resume", user.run, "--set", "train.max_steps=0", "--log-level", "warning"});
  CHECK(resumed.code == 0);
  CHECK(is_one_line(resumed.err));
  CHECK(read_text(user.run + "/weights.safetensors") == read_text(user.whole + "/weights.safetensors"));
  // The recipe and the record go on naming the library, and not the copy.
  CHECK(read_text(user.run + "/plugins.json") == record);
  CHECK_THAT(read_text(user.run + "/recipe.toml"), REWIRE_CATCH_CONTAINS("name = \"" + user.plugin + "\""));
}

TEST_CASE("A library that is named in place of the run's is taken, and kept from then on") {
  const TrainedRun user;
  const std::string other = user.folder.file("other.so");
  write_text(other, read_text(plugin_file("gain")) + "another build");
  const Words named = {"--plugin", other + ":factor=0.5"};
  const Outcome evaluated = user.eval(named);
  user.check_loss(evaluated);
  CHECK(evaluated.err.empty());
  CHECK(user(Words{"train", "--resume", user.run, "--set", "train.max_steps=0", "--quiet"} + named).code ==
        0);
  const json record = json::parse(read_text(user.run + "/plugins.json")).at("plugins").at(0);
  CHECK(record.at("path") == other);
  CHECK(read_text(user.run + "/" + record.at("copy").get<std::string>()) == read_text(other));
}

TEST_CASE("A run's copy is somebody's code: it takes consent, and has to be what the record says") {
  const TrainedRun user;
  fs::remove(user.plugin);
  fs::remove_all(user.folder.file("data"));  // as where the run was downloaded
  for (const Words& command :
       {Words{"eval", user.run, "--quiet"},
        Words{"train", "--resume", user.run, "--set", "train.max_steps=0", "--quiet"}}) {
    const Outcome refused = user(command);
    CHECK(refused.code == 2);
    CHECK(refused.err ==
          "rewire: cannot load plugin '" + user.copy +
              "': a recipe, sweep or run names this file, and you have not agreed to run it (SHA-256 " +
              user.sha256 + "): add --trust if you know whose code it is\n");
  }
  user.check_loss(user.eval({"--trust"}));
  user.check_loss(user.eval());

  write_text(user.copy, read_text(user.copy) + "more");
  const Outcome changed = user.eval({"--quiet", "--trust"});
  CHECK(changed.code == 2);
  CHECK(changed.err == "rewire: " + user.copy + " is not the library that the run used: " + user.run +
                           "/plugins.json has another SHA-256 for it\n");
  // A record leads to no file elsewhere.
  const std::string record = user.run + "/plugins.json";
  json outside = json::parse(read_text(record));
  outside.at("plugins").at(0).at("copy") = "plugins/../../mine.so";
  write_text(record, outside.dump());
  const Outcome refused = user.eval({"--quiet"});
  CHECK(refused.code == 2);
  CHECK(refused.err == "rewire: " + record + ": plugins[0].copy is not a file of the folder plugins\n");
}

TEST_CASE("Where a run keeps no copy, eval warns of a plugin that was rebuilt") {
  const TrainedRun user;
  fs::remove_all(user.run + "/plugins");
  write_text(user.plugin, read_text(plugin_file("gain")) + "rebuilt");
  for (const bool recorded : {true, false}) {  // a run of before has no record either
    CAPTURE(recorded);
    if (!recorded) fs::remove(user.run + "/plugins.json");
    const Outcome outcome = user.eval({"--trust"});
    user.check_loss(outcome);
    CHECK(is_one_line(outcome.err));
    CHECK_THAT(outcome.err,
               REWIRE_CATCH_CONTAINS("plugin 'gain' was rebuilt since the run (SHA-256 " +
                                     user.sha256.substr(0, 12)) &&
                   REWIRE_CATCH_CONTAINS("and " + user.run +
                                         " keeps no copy of it: the numbers may differ from the run's"));
  }
}

}  // namespace
}  // namespace rewire::test
