// The power goes at every point of training, resuming, sweeping and caching: the work is done once with a
// journal of what it changed on the disk, and of each prefix of the journal the disk is made as a loss of
// power may leave it (disk.h). Gone on with from there, each comes to the bytes of an undisturbed run. Work
// that ended with code 0 is on the disk, whatever is lost. HOSTILE_ALL=1: every state; otherwise a sample of
// them.
//   power_loss_test [WORD…]   those scenarios whose name has one of the words in it
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <mutex>
#include <set>

#include "tests/hostile/disk.h"
#include "tests/hostile/good.h"
#include "tests/hostile/scenario.h"
#include "tests/hostile/steps.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::string>;

constexpr Crash kCrashes[] = {
    {Crash::Names::undone, Crash::Bytes::dropped}, {Crash::Names::done, Crash::Bytes::dropped},
    {Crash::Names::done, Crash::Bytes::zeros},     {Crash::Names::done, Crash::Bytes::torn},
    {Crash::Names::half, Crash::Bytes::dropped},   {Crash::Names::half, Crash::Bytes::torn},
    {Crash::Names::undone, Crash::Bytes::written}, {Crash::Names::done, Crash::Bytes::written},
};

void write_files(const Files& files, const std::string& folder) {
  fs::create_directories(folder);
  for (const auto& [path, bytes] : files) {
    if (path.ends_with('/'))
      fs::create_directories(folder + "/" + path);
    else
      write_bytes(folder + "/" + path, bytes);
  }
  // A cache is its user's alone.
  if (fs::exists(folder + "/cache")) fs::permissions(folder + "/cache/rewire", static_cast<fs::perms>(0700));
}

struct State {
  const Scenario* scenario;
  std::string when;
  Files files;
  bool is_end;
};

class Run {
 public:
  explicit Run(const std::vector<std::string>& words) {
    for (Scenario& scenario : scenarios()) {
      const auto named = [&](const std::string& word) {
        return scenario.name.find(word) != std::string::npos;
      };
      if (words.empty() || std::ranges::any_of(words, named)) scenarios_.push_back(std::move(scenario));
    }
  }

  int finish() {
    const auto start = std::chrono::steady_clock::now();
    std::vector<State> states;
    for (const Scenario& scenario : scenarios_) add_states(scenario, states);
    const std::size_t all = states.size();
    if (!takes_all()) sample(states);
    in_parallel(states.size(), [&](std::size_t i) { check(states[i]); });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    fmt::print("{} losses of power of {}, {} lost what they must not, in {:.1f} s\n", states.size(), all,
               failures_, took.count());
    return failures_ == 0 ? 0 : 1;
  }

 private:
  /// What was done at the work's place, as it stands undisturbed.
  std::string undisturbed(const Scenario& scenario) const { return root_.file(scenario.name); }

  void add_states(const Scenario& scenario, std::vector<State>& states) {
    const std::string folder = undisturbed(scenario), journal = root_.file("journal of " + scenario.name);
    prepare(scenario, folder);
    Disk disk(folder);
    const Words faults = {"LD_PRELOAD=" REWIRE_FAULTS, "FAULT_UNDER=" + folder, "FAULT_JOURNAL=" + journal};
    const Ended ended = run_process(command_in(scenario.begin, folder),
                                    faults + environment_in(scenario, folder), folder, {.seconds = 120});
    if (ended.code != 0) throw std::runtime_error(scenario.name + ": " + ended.err);
    const std::vector<Change> changes = read_journal(journal);
    std::set<Files> seen;
    for (std::size_t done = 0; done <= changes.size(); ++done) {
      if (done > 0) disk.apply(changes[done - 1]);
      for (const Crash& crash : kCrashes) {
        Files files = disk.after(crash);
        const bool is_end = done == changes.size();
        if (seen.insert(files).second || is_end)
          states.push_back({&scenario,
                            fmt::format("after {} of {} changes, {}", done, changes.size(), to_string(crash)),
                            std::move(files), is_end});
      }
    }
  }

  static void sample(std::vector<State>& states) {
    constexpr std::size_t kSample = 120;
    std::vector<State> sample;
    const std::size_t every = std::max<std::size_t>(states.size() / kSample, 1);
    for (std::size_t i = 0; i < states.size(); ++i) {
      if (i % every == 0 || states[i].is_end) sample.push_back(std::move(states[i]));
    }
    states = std::move(sample);
  }

  void check(const State& state) {
    const Scenario& scenario = *state.scenario;
    const TemporaryFolder place;
    // The same path as undisturbed: records and recipes hold it.
    const std::string folder = place.file("f");
    write_files(state.files, folder);
    std::string fault;
    if (state.is_end) fault = scenario.compare(folder, undisturbed(scenario));
    if (!fault.empty()) fault = "it had ended with code 0, and " + fault;
    if (fault.empty()) fault = recover(scenario, folder, undisturbed(scenario));
    const std::lock_guard lock(mutex_);
    if (fault.empty()) return;
    ++failures_;
    fmt::print("FAILED {} {}: {}\n", scenario.name, state.when, fault);
    std::fflush(stdout);
  }

  std::vector<Scenario> scenarios_;
  const TemporaryFolder root_;
  std::mutex mutex_;
  std::size_t failures_ = 0;
};

}  // namespace
}  // namespace rewire::test

int main(int argc, char** argv) {
  ::unsetenv("REWIRE_PLUGIN_PATH");
  try {
    return rewire::test::Run(std::vector<std::string>(argv + 1, argv + argc)).finish();
  } catch (const std::exception& error) {
    fmt::print(stderr, "power_loss_test: {}\n", error.what());
    return 1;
  }
}
