// Sweeps as a user meets them: what is finished is skipped, what was interrupted goes on to the same bits,
// and one run that fails ends no other.
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// examples/sweeps/tiny.toml with these plugins.
std::string tiny_sweep(const std::string& plugins) {
  std::string text = read_text(REWIRE_EXAMPLES "/sweeps/tiny.toml");
  const std::size_t begin = text.find("\nplugins = ") + 1;
  return text.replace(begin, text.find('\n', begin) - begin, "plugins = [" + plugins + "]");
}

std::string gain(const std::string& values) {
  return "\"" + plugin_file("gain") + ":" + values + "\"";
}

Outcome sweep(const std::string& file, const std::string& out, const Words& more = {}) {
  return rewire_command(Words{"sweep", file, "--out", out, "--trust", "--quiet"} + more);
}

template <class Condition>
bool within_a_minute(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

TEST_CASE("A sweep trains every combination, and a second call finds nothing left to do") {
  const TemporaryFolder folder;
  const std::string file = folder.file("s.toml"), out = folder.file("out");
  write_text(file, tiny_sweep("\"none\", " + gain("factor=0.5")));
  const Outcome first = sweep(file, out, {"--json"});
  CHECK(first.err.empty());
  REQUIRE(first.code == 0);
  const json report = json::parse(first.out);
  CHECK(report.at("complete") == true);
  REQUIRE(report.at("rows").size() == 2);
  CHECK(report.at("rows").at(1).at("plugins") == "gain:factor=0.5");

  // Its numbers are those of the runs: the same commands, one by one, train to the same bits.
  std::vector<double> top1;
  for (const char* name : {"none-s0", "none-s1"}) {
    const std::string run = out + "/runs/" + name;
    const json eval = json::parse(rewire_command({"eval", run, "--json", "--quiet"}).out);
    top1.push_back(eval.at("top1"));
    const std::string again = folder.file(name);
    CHECK(rewire_command({"train", run + "/recipe.toml", "--out", again, "--quiet"}).code == 0);
    CHECK(read_text(again + "/weights.safetensors") == read_text(run + "/weights.safetensors"));
  }
  const json& row = report.at("rows").at(0);
  CHECK(row.at("finished") == 2);
  CHECK(row.at("top1").at("mean").get<double>() == Approx((top1[0] + top1[1]) / 2));
  CHECK(row.at("top1").at("std").get<double>() == Approx(std::abs(top1[0] - top1[1]) / std::sqrt(2.0)));
  CHECK(row.at("samples_per_s").at("mean") > 0);
  CHECK(row.at("peak_mb").at("mean") > 10);
  CHECK(row.at("wall_seconds").at("mean") > 0);
  CHECK_THAT(read_text(out + "/table.md"), REWIRE_CATCH_CONTAINS("\n| gain:factor=0.5 | 2 | "));
  CHECK_THAT(read_text(out + "/runs.csv"),
             REWIRE_CATCH_CONTAINS("\ngain-factor=0.5-s1,gain:factor=0.5,,1,finished,"));

  const auto written = fs::last_write_time(out + "/runs/none-s0/weights.safetensors");
  const Outcome second = sweep(file, out, {"--json"});
  CHECK(second.code == 0);
  CHECK(second.out == first.out);
  CHECK(fs::last_write_time(out + "/runs/none-s0/weights.safetensors") == written);

  // A longer list goes on from there; another recipe in the same place is refused.
  write_text(file, replaced(read_text(file), "seeds = [0, 1]", "seeds = [0, 1, 2]"));
  CHECK(json::parse(sweep(file, out, {"--json"}).out).at("rows").at(0).at("finished") == 3);
  CHECK(fs::last_write_time(out + "/runs/none-s0/weights.safetensors") == written);
  write_text(file, replaced(read_text(file), "train.epochs = 4", "train.epochs = 5"));
  const Outcome other = sweep(file, out);
  CHECK(other.code == 2);
  CHECK_THAT(other.err,
             REWIRE_CATCH_CONTAINS("holds a run of another recipe (epochs = 4 then, epochs = 5 now)"));
}

TEST_CASE("Ctrl-C saves the run under way, kill -9 loses no finished one, and both go on to the same bits") {
  const TemporaryFolder folder;
  const std::string file = folder.file("s.toml"), out = folder.file("out"), whole = folder.file("whole");
  // Long enough that each signal comes in the middle of a run, however late.
  const std::string longer =
      replaced(tiny_sweep("\"none\""), "train.epochs = 4", "train.epochs = 20\ntrain.keep = 100");
  write_text(file, replaced(longer, "data.count = 203", "data.count = 1603"));
  CHECK(sweep(file, whole).code == 0);
  const std::string first = out + "/runs/none-s0", second = out + "/runs/none-s1";
  {
    RunningCommand command({"sweep", file, "--out", out, "--quiet"});
    REQUIRE(within_a_minute([&] { return checkpoints(first) >= 2; }));
    command.signal(SIGINT);
    const Outcome stopped = command.wait();
    CHECK(stopped.code == 128 + SIGINT);
    CHECK(stopped.err == "rewire: stopped by signal 2; the same command continues\n");
    CHECK_THAT(stopped.out, REWIRE_CATCH_CONTAINS("none     0 of 2  "));
  }
  CHECK_FALSE(fs::exists(first + "/weights.safetensors"));
  CHECK_FALSE(fs::exists(second));
  {
    const std::size_t before = checkpoints(first);
    RunningCommand command({"sweep", file, "--out", out, "--quiet"});
    REQUIRE(within_a_minute([&] { return checkpoints(first) > before; }));
    command.signal(SIGSTOP);  // it keeps its lock, and cannot come to its end meanwhile
    CHECK_THAT(sweep(file, out).err, REWIRE_CATCH_CONTAINS("another sweep is running in " + out));
    command.signal(SIGCONT);
    REQUIRE(within_a_minute([&] { return checkpoints(second) >= 2; }));
    command.signal(SIGKILL);
    CHECK(command.wait().code == 128 + SIGKILL);
  }
  CHECK(fs::exists(first + "/weights.safetensors"));
  CHECK_FALSE(fs::exists(second + "/weights.safetensors"));
  // The run that the killed sweep had begun is told to stop; it saves, and lets go of its folder.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  Outcome last = sweep(file, out);
  while (last.code == 1 && std::chrono::steady_clock::now() < deadline) last = sweep(file, out);
  CHECK(last.code == 0);
  CHECK(last.err.empty());
  for (const char* name : {"none-s0", "none-s1"}) {
    const std::string weights = std::string("/runs/") + name + "/weights.safetensors";
    CHECK(read_text(out + weights) == read_text(whole + weights));
  }
}

TEST_CASE("A run that fails is named, the others are trained, and a later call tries it again") {
  const TemporaryFolder folder;
  const std::string file = folder.file("s.toml"), out = folder.file("out");
  write_text(file, tiny_sweep("\"" + plugin_file("careless") + ":fault=nan\", \"none\""));
  const Outcome outcome = sweep(file, out);
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.err,
             REWIRE_CATCH_CONTAINS("rewire: 2 of 4 runs failed; careless-fault=nan-s0: step 1 (epoch 1): "
                                   "the loss or a gradient is not finite"));
  CHECK_THAT(outcome.out, REWIRE_CATCH_CONTAINS("careless:fault=nan  0 of 2, 2 failed  –"));
  CHECK_THAT(read_text(out + "/table.csv"), REWIRE_CATCH_CONTAINS("\ncareless:fault=nan,,0,2,0,,"));
  CHECK(fs::exists(out + "/runs/none-s1/weights.safetensors"));
  CHECK(sweep(file, out).code == 1);
  // A start that did not get as far as a recipe is begun anew.
  fs::remove_all(out + "/runs/none-s1");
  fs::remove(out + "/records/none-s1.json");
  fs::create_directories(out + "/runs/none-s1/checkpoints");
  CHECK(sweep(file, out).code == 1);
  CHECK(fs::exists(out + "/runs/none-s1/weights.safetensors"));
}

TEST_CASE("A run of a plugin that was rebuilt since is kept aside and trained again") {
  const TemporaryFolder folder;
  const std::string file = folder.file("s.toml"), out = folder.file("out"), library = folder.file("mine.so");
  fs::copy_file(plugin_file("gain"), library);
  write_text(file, tiny_sweep("\"none\", \"" + library + ":factor=0.5\""));
  REQUIRE(sweep(file, out).code == 0);
  const std::string run = out + "/runs/mine-factor=0.5-s0", other = out + "/runs/none-s0";
  const auto written = fs::last_write_time(other + "/weights.safetensors");
  const std::string weights = read_text(run + "/weights.safetensors");
  // The same code in other bytes: what stands behind an ELF file's sections is not loaded.
  write_text(library, read_text(library) + "rebuilt");
  const Outcome again = rewire_command({"sweep", file, "--out", out, "--trust"});
  CHECK(again.code == 0);
  CHECK_THAT(again.err,
             REWIRE_CATCH_CONTAINS("mine-factor=0.5-s0 was made with another build of gain 1.2.3 (") &&
                 REWIRE_CATCH_CONTAINS("): kept as mine-factor=0.5-s0.stale-1, trained again\n"));
  CHECK(read_text(run + ".stale-1/weights.safetensors") == weights);
  CHECK(read_text(run + "/weights.safetensors") == weights);
  CHECK(fs::exists(out + "/records/mine-factor=0.5-s1.stale-1.json"));
  CHECK(fs::last_write_time(other + "/weights.safetensors") == written);
  // From then on it is known.
  CHECK(rewire_command({"sweep", file, "--out", out, "--trust"}).err.find("another build") ==
        std::string::npos);
  CHECK_FALSE(fs::exists(run + ".stale-2"));
}

TEST_CASE("A sweep finds the runs that it named with 17 digits before, and renames them") {
  const TemporaryFolder folder;
  const std::string file = folder.file("s.toml"), out = folder.file("out");
  write_text(file, replaced(replaced(tiny_sweep("\"none\""), "seeds = [0, 1]", "seeds = [0]"),
                            "train.epochs = 4", "train.epochs = 1\noptimizer.lr = [0.003, 0.01]"));
  const Outcome first = sweep(file, out, {"--json"});
  REQUIRE(first.code == 0);
  const std::string name = "none-lr=0.003-s0", former = "none-lr=0.0030000000000000001-s0";
  const auto rename = [&](const std::string& from, const std::string& to) {
    fs::rename(out + "/runs/" + from, out + "/runs/" + to);
    fs::rename(out + "/records/" + from + ".json", out + "/records/" + to + ".json");
  };
  rename(name, former);
  const auto written = fs::last_write_time(out + "/runs/" + former + "/weights.safetensors");
  const Outcome again = rewire_command({"sweep", file, "--out", out, "--json"});
  CHECK(again.code == 0);
  CHECK(again.err == "rewire: info: " + out + "/runs/" + name + " was " + former +
                         ": numbers are now written with as few digits as they need\n");
  CHECK(again.out == first.out);
  CHECK(fs::last_write_time(out + "/runs/" + name + "/weights.safetensors") == written);
  CHECK_FALSE(fs::exists(out + "/records/" + former + ".json"));

  fs::copy(out + "/records/" + name + ".json", out + "/records/" + former + ".json");
  const Outcome twice = sweep(file, out);
  CHECK(twice.code == 2);
  CHECK(std::ranges::count(twice.err, '\n') == 1);
  CHECK_THAT(twice.err,
             REWIRE_CATCH_CONTAINS("holds this run twice, as " + out + "/records/" + name + ".json"));
}

/// Removes what depends on time from a table as JSON.
json without_times(const std::string& text) {
  json table = json::parse(text);
  for (json& row : table.at("rows"))
    for (const char* key : {"samples_per_s", "peak_mb", "wall_seconds"}) row.erase(key);
  table.erase("sweep");
  return table;
}

TEST_CASE("Runs trained at once, or one by one in processes of a job array, are those trained in turn") {
  const TemporaryFolder folder;
  const std::string file = folder.file("s.toml");
  write_text(file, tiny_sweep("\"none\", " + gain("factor=0.5")));
  const std::vector<std::string> names = {"none-s0", "none-s1", "gain-factor=0.5-s0", "gain-factor=0.5-s1"};
  const std::string turn = folder.file("turn"), once = folder.file("once"), array = folder.file("an array");
  const Outcome in_turn = sweep(file, turn, {"--json"});
  REQUIRE(in_turn.code == 0);
  const auto check_same = [&](const std::string& other) {
    for (const std::string& name : names) {
      const std::string weights = "/runs/" + name + "/weights.safetensors";
      CHECK(read_text(other + weights) == read_text(turn + weights));
    }
    const Outcome again = sweep(file, other, {"--json"});
    CHECK(without_times(again.out) == without_times(in_turn.out));
  };

  const Outcome at_once = rewire_command({"sweep", file, "--out", once, "--trust", "--jobs", "3"});
  CHECK(at_once.code == 0);
  for (const char* line : {"\n[3/4] gain-factor=0.5-s0\n", "\n[2/4] epoch 4/4 "})
    CHECK_THAT(at_once.err, REWIRE_CATCH_CONTAINS(line));
  check_same(once);

  const std::string script = folder.file("array.sh");
  const Outcome written = sweep(file, array, {"--slurm", script});
  CHECK(written.code == 0);
  CHECK(written.out ==
        script + ": a job array of 4 runs; sbatch " + script + " trains them in " + array + "\n");
  CHECK_THAT(read_text(script),
             REWIRE_CATCH_CONTAINS("\n#SBATCH --array=0-3\n") &&
                 REWIRE_CATCH_CONTAINS("\n#SBATCH --output='" + array + "/slurm-%A_%a.txt'\n"));
  CHECK(fs::is_directory(array));
  CHECK(RunningCommand({"sweep", file, "--trust", "--quiet", "--device", "cuda", "--out", folder.file("gpus"),
                        "--slurm", folder.file("gpus.sh")},
                       {"REWIRE_CUDA_DRIVER=/missing"})
            .wait()
            .code == 0);
  CHECK(sweep(file, array, {"--slurm", folder.file("x.sh"), "--only", "none-s0"}).err ==
        "rewire: --slurm only writes a script: drop --only, --jobs and --json\n");
  const Outcome exists = sweep(file, array, {"--slurm", script});
  CHECK(exists.code == 2);
  CHECK(exists.err == "rewire: --slurm " + script + ": this file exists\n");
  std::string tasks;
  for (int task = 0; task < 4; ++task)
    tasks += "( SLURM_ARRAY_TASK_ID=" + std::to_string(task) + " bash '" + script + "' >/dev/null ) & p" +
             std::to_string(task) + "=$!; ";
  CHECK(std::system((tasks + "wait $p0 && wait $p1 && wait $p2 && wait $p3").c_str()) == 0);
  // Whoever ended last has seen all runs.
  CHECK_THAT(read_text(array + "/table.md"),
             REWIRE_CATCH_CONTAINS("\n| none | 2 | ") && REWIRE_CATCH_CONTAINS("\n| gain:factor=0.5 | 2 | "));
  check_same(array);
}

TEST_CASE("One run of a sweep keeps out the whole sweep and itself, and no other") {
  const TemporaryFolder folder;
  const std::string file = folder.file("s.toml"), out = folder.file("out");
  write_text(file, replaced(replaced(tiny_sweep("\"none\""), "train.epochs = 4", "train.epochs = 40"),
                            "data.count = 203", "data.count = 1603"));
  const Words one = {"sweep", file, "--out", out, "--quiet", "--only"};
  RunningCommand command(one + Words{"none-s0"});
  REQUIRE(within_a_minute([&] { return checkpoints(out + "/runs/none-s0") >= 1; }));
  CHECK(sweep(file, out).err == "rewire: another sweep is running in " + out + "\n");
  CHECK(rewire_command(one + Words{"none-s0"}).err ==
        "rewire: another process trains none-s0 in " + out + "\n");
  RunningCommand other(one + Words{"none-s1"});
  REQUIRE(within_a_minute([&] { return checkpoints(out + "/runs/none-s1") >= 1; }));
  for (RunningCommand* running : {&command, &other}) {
    running->signal(SIGUSR1);
    CHECK(running->wait().code == 128 + SIGUSR1);
  }
  // A run of a sweep is alone, whoever started the sweep.
  const std::string tiny = folder.file("tiny.toml");
  write_text(tiny, tiny_sweep("\"none\""));
  RunningCommand step({"sweep", tiny, "--out", folder.file("tiny"), "--quiet", "--only", "none-s1"},
                      {"SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4"});
  CHECK(step.wait().code == 0);
  CHECK(rewire_command({"sweep", file, "--out", out, "--only", "none-s2"}).err ==
        "rewire: --only none-s2: the sweep has no such run (did you mean 'none-s0'?)\n");
  CHECK(sweep(file, out, {"--device", "cuda:1", "--jobs", "2"}).err ==
        "rewire: --device cuda:1: of --jobs 2 each takes a GPU in turn; write --device cuda, and choose the "
        "GPUs by "
        "CUDA_VISIBLE_DEVICES\n");
  CHECK(sweep(file, out, {"--only", "none-s0", "--jobs", "2"}).err ==
        "rewire: --only trains one run: drop it or --jobs\n");
}

/// Sends the signal to all processes with this text in their command lines; returns their number.
int signal_all_with(const std::string& text, int signal) {
  int count = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string number = entry.path().filename();
    if (number.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "cmdline");
    const std::string line{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (line.find(text) == std::string::npos) continue;
    ::kill(std::stoi(number), signal);
    ++count;
  }
  return count;
}

TEST_CASE("A signal saves all runs that train at once") {
  const TemporaryFolder folder;
  const std::string file = folder.file("s.toml"), out = folder.file("out");
  write_text(file, replaced(replaced(tiny_sweep("\"none\""), "train.epochs = 4", "train.epochs = 40"),
                            "data.count = 203", "data.count = 1603"));
  RunningCommand command({"sweep", file, "--out", out, "--quiet", "--jobs", "2"});
  REQUIRE(within_a_minute(
      [&] { return checkpoints(out + "/runs/none-s0") >= 1 && checkpoints(out + "/runs/none-s1") >= 1; }));
  // As if all processes of a job got it: the runs, and the sweep, which passes it on.
  CHECK(signal_all_with(out + "/runs/", SIGTERM) == 2);
  command.signal(SIGTERM);
  CHECK(command.wait().code == 128 + SIGTERM);
  for (const char* name : {"none-s0", "none-s1"}) {
    CHECK_THAT(read_text(out + "/runs/" + name + "/log.txt"),
               REWIRE_CATCH_CONTAINS("stopped by signal 15 after step "));
    CHECK(json::parse(read_text(out + "/records/" + name + ".json")).at("status") == "begun");
    CHECK_FALSE(fs::exists(out + "/runs/" + name + "/weights.safetensors"));
  }
}

TEST_CASE("What is wrong in a sweep is refused before anything is trained") {
  const TemporaryFolder folder;
  const std::string file = folder.file("s.toml"), out = folder.file("out");
  const std::string good = tiny_sweep("\"none\", " + gain("factor=0.5"));
  struct Case {
    std::string text, message;
  };
  const Case cases[] = {
      {replaced(good, "seeds", "sedes"), ":4: unknown key sedes (did you mean 'seeds'?)\n"},
      {replaced(good, "data.count", "data.cuont"), ":13: unknown key data.cuont (did you mean 'count'?)\n"},
      {replaced(good, "vit_tiny_28", "vit_tiny_82"),
       ":3: none-s0: unknown model 'vit_tiny_82' (did you mean 'vit_tiny_28'?); `rewire models` lists the "
       "zoo\n"},
      {replaced(good, "factor=0.5", "factr=0.5"),
       ":5: gain-factr=0.5-s0: plugin 'gain': it has no parameter 'factr' (did you mean 'factor'?); `rewire "
       "plugins info " +
           plugin_file("gain") + "` lists them\n"},
      {replaced(good, "factor=0.5", "layers=7"), ":5: gain-layers=7-s0: plugin 'gain': "},
      {replaced(good, "factor=0.5", "layers=7,from_epoch=1"),
       "-s0: plugin 'gain': layers=7: the last block is 1\n"},
      {replaced(good, "factor=0.5", "from_epoch=4"),
       ":5: gain-from_epoch=4-s0: plugin 'gain': from_epoch=4 is never reached: the last of train.epochs=4 "
       "is epoch 3; lower it, or train longer\n"},
      {replaced(good, "model.heads = 2", "model.heads = 3"), ":3: none-s0: "},
      {replaced(good, "vit_tiny_28", "missing.toml"), "cannot read "},
  };
  for (const Case& c : cases) {
    write_text(file, c.text);
    const Outcome outcome = sweep(file, out);
    CHECK(outcome.code == 2);
    CHECK(std::ranges::count(outcome.err, '\n') == 1);
    CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS("rewire: " + file) && REWIRE_CATCH_CONTAINS(c.message));
  }
  CHECK_FALSE(fs::exists(out));
  CHECK(sweep(folder.file("missing.toml"), out).code == 2);
  CHECK(rewire_command({"sweep"}).code == 2);
}

}  // namespace
}  // namespace rewire::test
