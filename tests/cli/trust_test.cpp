// Whose code a command runs: what a recipe, a sweep or a run folder names by a path needs the user's word,
// once; and what plugins do to the process is told, and is never taken for a command's success.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "plugins/sdk/rewire_plugin.h"
#include "runtime/io/files.h"
#include "runtime/io/sha256.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A user who has agreed to nothing yet, and a plugin that nobody has seen before: gain, with more bytes
/// behind its sections, which are not loaded.
class Newcomer {
 public:
  Newcomer() {
    static int count = 0;
    write_text(plugin, read_text(plugin_file("gain")) + "newcomer" + std::to_string(++count));
    sha256 = runtime::sha256_hex(runtime::read_file(plugin));
    write_text(
        recipe,
        "[model]\nname = \"vit_tiny_28\"\ndim = 8\ndepth = 1\nheads = 2\npatch = 14\n[[plugin]]\nname = \"" +
            plugin + "\"\n");
  }
  Outcome operator()(const Words& words) const {
    return RunningCommand(words, {"XDG_DATA_HOME=" + folder.file("data")}).wait();
  }
  Outcome dump(const Words& more = {}) const {
    return (*this)(Words{"dump", recipe, "--stage", "rewritten", "--quiet"} + more);
  }
  /// What the refusal says, after where.
  std::string refusal() const {
    return "cannot load plugin '" + plugin +
           "': a recipe, sweep or run names this file, and you have not agreed to run it (SHA-256 " + sha256 +
           "): add --trust if you know whose code it is\n";
  }

  TemporaryFolder folder;
  std::string plugin = folder.file("mine.so"), recipe = folder.file("mine.toml"), sha256;
};

TEST_CASE(
    "A plugin that a recipe names by a path is refused before any of its code runs, until it is trusted") {
  const Newcomer user;
  const Outcome refused = user.dump();
  CHECK(refused.code == 2);
  CHECK(refused.out.empty());
  CHECK(refused.err == "rewire: " + user.refusal());
  for (const Words& command :
       {Words{"verify", user.recipe}, Words{"bench", user.recipe}, Words{"train", user.recipe}}) {
    const Outcome outcome = user(command);
    CHECK(outcome.code == 2);
    CHECK(outcome.err == "rewire: " + user.refusal());
  }
  CHECK(user.dump({"--plugin", "none"}).code == 0);

  CHECK(user.dump({"--trust"}).code == 0);
  const Outcome trusted = user.dump();
  CHECK(trusted.code == 0);
  CHECK_THAT(trusted.out, REWIRE_CATCH_CONTAINS("blocks.0.attn.gain"));
  CHECK(read_text(user.folder.file("data/rewire/trusted")) == user.sha256 + "  # " + user.plugin + "\n");

  // It is the bytes that are trusted, not the place.
  write_text(user.plugin, read_text(user.plugin) + "more");
  CHECK(user.dump().code == 2);
}

TEST_CASE("Code that is not trusted is not run, not even its constructors") {
  const Newcomer user;
  write_text(user.plugin, read_text(plugin_file("ends")));
  const Words dump = {"dump", user.recipe, "--stage", "rewritten", "--quiet"};
  const std::vector<std::string> crash = {"REWIRE_FIXTURE_AT_LOAD=segv",
                                          "XDG_DATA_HOME=" + user.folder.file("data")};
  CHECK_THAT(RunningCommand(dump, crash).wait().err, REWIRE_CATCH_CONTAINS("you have not agreed to run it"));
  CHECK_THAT(RunningCommand(dump + Words{"--trust"}, crash).wait().err,
             REWIRE_CATCH_CONTAINS("it crashed (SIGSEGV) when it was tried"));
}

TEST_CASE("A plugin that is given on the command line needs no other word, then or in its run") {
  const Newcomer user;
  const std::string run = user.folder.file("run");
  const Words small = {"vit_tiny_28",    "--set", "model.dim=8",    "--set", "model.depth=1",         "--set",
                       "model.heads=2",  "--set", "model.patch=14", "--set", "data.format=synthetic", "--set",
                       "data.count=40",  "--set", "train.batch=8",  "--set", "train.epochs=1",        "--set",
                       "train.threads=1"};
  const Outcome trained =
      user(Words{"train"} + small + Words{"--plugin", user.plugin, "--out", run, "--quiet"});
  CHECK(trained.err.empty());
  REQUIRE(trained.code == 0);
  CHECK(user({"eval", run, "--quiet"}).code == 0);
  CHECK(user({"train", "--resume", run, "--quiet"}).err.find("agreed") == std::string::npos);

  // Another user's run, or one that was downloaded: the same folder, and no word of theirs.
  fs::remove_all(user.folder.file("data"));
  for (const Words& command : {Words{"eval", run, "--quiet"}, Words{"train", "--resume", run, "--quiet"}}) {
    const Outcome outcome = user(command);
    CHECK(outcome.code == 2);
    CHECK(outcome.err == "rewire: " + user.refusal());
  }
  CHECK(user({"eval", run, "--quiet", "--trust"}).code == 0);
  CHECK(user({"eval", run, "--quiet"}).code == 0);
}

TEST_CASE("A plugin by name from --plugin-path is the user's own, in its run too") {
  const Newcomer user;
  const Words dump = {"dump", "vit_tiny_28", "--stage", "rewritten", "--quiet"};
  CHECK(user(dump + Words{"--plugin", "mine", "--plugin-path", user.folder.path().string()}).code == 0);
  CHECK(user.dump().code == 0);
}

TEST_CASE("A sweep's consent reaches its runs") {
  const Newcomer user;
  const std::string file = user.folder.file("s.toml"), out = user.folder.file("out");
  const Words settings = {"model.dim = 8",
                          "model.depth = 1",
                          "model.heads = 2",
                          "model.patch = 14",
                          "data.format = \"synthetic\"",
                          "data.count = 40",
                          "train.batch = 8",
                          "train.epochs = 1",
                          "train.threads = 1"};
  const auto write_sweep = [&](const std::string& head) {
    std::string text = head + "seeds = [0]\n[settings]\n";
    for (const std::string& setting : settings) text += setting + "\n";
    write_text(file, text);
  };
  const Words sweep = {"sweep", file, "--out", out, "--quiet"};
  for (const std::string& head : {"recipe = \"vit_tiny_28\"\nplugins = [\"" + user.plugin + "\"]\n",
                                  "recipe = \"" + user.recipe + "\"\n"}) {
    CAPTURE(head);
    fs::remove_all(user.folder.file("data"));
    fs::remove_all(out);
    write_sweep(head);
    const Outcome refused = user(sweep);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.err, REWIRE_CATCH_CONTAINS(user.refusal()));
    CHECK_FALSE(fs::exists(out));
    CHECK(user(sweep + Words{"--trust"}).code == 0);
  }
  // Where nothing can be remembered, --trust alone has to do.
  fs::remove_all(user.folder.file("data"));
  fs::remove_all(out);
  write_text(user.folder.file("data"), "in the way");
  const Outcome trusted = user(sweep + Words{"--trust"});
  CHECK(trusted.code == 0);
  CHECK(trusted.err.empty());
}

TEST_CASE("A library that a variable names is judged as a plugin is") {
  const TemporaryFolder folder;
  const std::string library = folder.file("libcuda.so");
  fs::copy_file(plugin_file("gain"), library);
  const auto fault = [&](const std::string& variable, const std::string& name) {
    const Outcome outcome =
        RunningCommand({"doctor", "--json", "--quiet"}, {variable + "=" + library}).wait();
    const json cuda = json::parse(outcome.out).at("cuda");
    return cuda.at("parts").at(name).at("why").get<std::string>();
  };
  for (const auto& [variable, name] : {std::pair<std::string, std::string>{"REWIRE_CUDA_DRIVER", "driver"},
                                       {"REWIRE_NVRTC", "NVRTC"},
                                       {"REWIRE_CUBLASLT", "cuBLASLt"},
                                       {"REWIRE_CUFFT", "cuFFT"},
                                       {"REWIRE_CUDNN", "cuDNN"}}) {
    CAPTURE(variable);
    REQUIRE(::chmod(library.c_str(), 0664) == 0);
    const std::string refusal = variable + " is '" + library + "', which cannot be loaded: '" + library +
                                "' is writable by its group, so the library cannot be trusted: chmod g-w '" +
                                library + "'";
    CHECK(fault(variable, name).substr(0, refusal.size()) == refusal);
    REQUIRE(::chmod(library.c_str(), 0644) == 0);
    CHECK_THAT(fault(variable, name), !REWIRE_CATCH_CONTAINS("cannot be loaded"));
  }
  fs::remove(library);
  REQUIRE(::mkfifo(library.c_str(), 0600) == 0);  // the loader would wait for somebody who writes to it
  CHECK(fault("REWIRE_CUDA_DRIVER", "driver") ==
        "REWIRE_CUDA_DRIVER is '" + library + "', which cannot be loaded: it is not a regular file");
}

TEST_CASE("However a plugin ends the process, the command names it and never ends with 0") {
  const Words dump = {"dump",    "vit_tiny_28", "--set",   "model.depth=1",
                      "--stage", "rewritten",   "--quiet", "--plugin"};
  const std::string ends = " before the command was done: do not rely on its results\n";
  for (const auto& [how, says] :
       std::initializer_list<std::pair<const char*, const char*>>{{"exit", "ended the process"},
                                                                  {"exit3", "ended the process"},
                                                                  {"now", "ended the process"},
                                                                  {"quick", "ended the process"},
#if REWIRE_SANITIZER == REWIRE_SANITIZER_NONE
                                                                  {"recursion", "crashed (SIGSEGV)"},
#endif
                                                                  {"segv", "crashed (SIGSEGV)"},
                                                                  {"abort", "crashed (SIGABRT)"}}) {
    CAPTURE(how);
    const Outcome outcome = rewire_command(dump + Words{plugin_file("ends") + ":how=" + how});
    CHECK(outcome.code == 1);
    CHECK(outcome.err == std::string("rewire: plugin ends ") + says + ends);
    // As it is loaded, it is known before it has a say here.
    const Outcome loading =
        RunningCommand(dump + Words{plugin_file("ends")}, {std::string("REWIRE_FIXTURE_AT_LOAD=") + how})
            .wait();
    CHECK(loading.code == 2);
    CHECK(loading.err.starts_with("rewire: cannot load plugin '" + plugin_file("ends") + "': it "));
    CHECK(std::ranges::count(loading.err, '\n') == 1);
  }
}

TEST_CASE("What a plugin does as the process ends does not change what the command has ended with") {
  if (REWIRE_SANITIZER != REWIRE_SANITIZER_NONE) return;
  const Words dump = {"dump",    "vit_tiny_28", "--set",   "model.depth=1",
                      "--stage", "rewritten",   "--quiet", "--plugin"};
  for (const char* how : {"exit", "exit3", "now", "segv", "abort", "hang"}) {
    CAPTURE(how);
    const std::vector<std::string> environment = {std::string("REWIRE_FIXTURE_AT_END=") + how};
    const Outcome done = RunningCommand(dump + Words{plugin_file("ends")}, environment).wait();
    CHECK(done.code == 0);
    CHECK(done.err.empty());
    CHECK_THAT(done.out, REWIRE_CATCH_CONTAINS("return "));
    CHECK(RunningCommand(dump + Words{plugin_file("ends") + ":how=none,how=none"}, environment).wait().code ==
          2);
  }
}

/// The listing of a folder with gain.so and ends.so.
Outcome listing(const Words& command, const std::string& how) {
  const TemporaryFolder folder;
  for (const char* name : {"gain", "ends"})
    fs::copy_file(plugin_file(name), folder.file(std::string(name) + ".so"));
  return RunningCommand(command + Words{"--plugin-path", folder.path().string()},
                        {"REWIRE_FIXTURE_AT_LOAD=" + how})
      .wait();
}

TEST_CASE("A listing names the plugin that crashes, ends the process or hangs, and goes on with the others") {
  for (const auto& [how, says] : std::initializer_list<std::pair<const char*, const char*>>{
           {"segv", "it crashed (SIGSEGV)"},
           {"exit", "it ended the process with code 0"},
           {"now", "it ended the process with code 0"},
           {"hang", "it had not returned after 10 s"}}) {
    for (const char* command : {"plugins", "doctor"}) {
      if (std::string_view(how) == "hang" && std::string_view(command) == "doctor") continue;  // as plugins
      CAPTURE(how, command);
      const Outcome outcome = listing({command}, how);
      CHECK(outcome.code == 0);
      CHECK_THAT(outcome.err,
                 REWIRE_CATCH_CONTAINS("rewire: warning: cannot load plugin '") &&
                     REWIRE_CATCH_CONTAINS(std::string("/ends.so': ") + says + " when it was tried\n"));
      CHECK_THAT(outcome.out, REWIRE_CATCH_CONTAINS("gain 1.2.3") && !REWIRE_CATCH_CONTAINS("ends 1.0.0"));
    }
  }
  const Outcome prints = listing({"plugins", "--json", "--quiet"}, "prints");
  CHECK(prints.err.empty());
  CHECK(json::parse(prints.out).size() >= 2);
  CHECK(
      RunningCommand({"plugins", "info", plugin_file("ends")}, {"REWIRE_FIXTURE_AT_LOAD=segv"}).wait().err ==
      "rewire: cannot load plugin '" + plugin_file("ends") + "': it crashed (SIGSEGV) when it was tried\n");
}

TEST_CASE("plugin test says in which check a plugin crashed or ended the process") {
  for (const auto& [how, says] : std::initializer_list<std::pair<const char*, const char*>>{
           {"segv", "it crashed (SIGSEGV)"}, {"exit", "it ended the process with code 0"}}) {
    CAPTURE(how);
    const std::string file = plugin_file("ends");
    const Outcome text = rewire_command({"plugin", "test", file + ":how=" + how, "--quiet"});
    CHECK(text.code == 1);
    CHECK_THAT(text.out,
               REWIRE_CATCH_CONTAINS("ok       schema ") &&
                   REWIRE_CATCH_CONTAINS(std::string("FAILED   rewrite    vit_token  ") + says + "\n"));
    CHECK(text.err == "rewire: " + file + " fails a check that every strategy must pass\n");
    const json object = json::parse(rewire_command({"plugin", "test", file + ":how=" + how, "--json"}).out);
    CHECK(object.at("passed") == false);
    CHECK(object.at("checks").back().at("detail") == says);
  }
}

TEST_CASE("A plugin with a flipped bit is loaded, refused or named in a line") {
  const TemporaryFolder folder;
  const std::string whole = read_text(plugin_file("gain")), file = folder.file("gain.so");
  std::uint64_t random = 20240607;
  for (int trial = 0; trial < 60; ++trial) {
    random = random * 6364136223846793005 + 1442695040888963407;
    const std::size_t at = (random >> 33) % whole.size();
    CAPTURE(trial, at);
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (trial % 8)));
    write_text(file, flipped);
    const Outcome info = rewire_command({"plugins", "info", file, "--quiet"});
    CHECK((info.code == 0 || info.code == 2));
    CHECK(std::ranges::count(info.err, '\n') == (info.code == 0 ? 0 : 1));
    if (info.code != 0) CHECK(info.err.starts_with("rewire: cannot load plugin '" + file + "': "));
  }
}

}  // namespace
}  // namespace rewire::test
