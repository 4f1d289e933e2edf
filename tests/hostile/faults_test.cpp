// Training, resuming, sweeping and caching while the n-th call of a kind fails. Each ends with code 0 or one
// line, and gone on with comes to the bytes of an undisturbed run. HOSTILE_ALL=1: every n until the work is
// done without meeting the fault, of memory 400; otherwise a sample of them, and of a slice
// (tests/support/slice.h) the first of each fault and the slice's.
//   faults_test [WORD…]   those scenarios and calls whose name has one of the words in it
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>

#include "tests/hostile/good.h"
#include "tests/hostile/scenario.h"
#include "tests/support/slice.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

struct Fault {
  const char* call;
  const char* error;
  const char* name;
  int times = 1;  // 0: from the n-th on, all
};

constexpr Fault kFaults[] = {
    {"write", "28", "no room (ENOSPC)"},
    {"write", "28", "no room from then on", 0},
    {"write", "5", "EIO"},
    {"write", "4", "interrupted (EINTR)"},
    {"write", "short", "half written"},
    {"write", "kill", "killed"},
    {"fsync", "5", "EIO"},
    {"fsync", "28", "no room (ENOSPC)"},
    {"fsync", "kill", "killed"},
    {"rename", "28", "no room (ENOSPC)"},
    {"rename", "5", "EIO"},
    {"rename", "kill", "killed"},
    {"read", "5", "EIO"},
    {"read", "4", "interrupted (EINTR)"},
    {"read", "short", "half read"},
    {"open", "24", "too many open files (EMFILE)"},
    {"open", "5", "EIO"},
    {"open", "28", "no room (ENOSPC)"},
    {"close", "5", "EIO"},
    {"mkdir", "28", "no room (ENOSPC)"},
    {"mkdir", "kill", "killed"},
    {"ftruncate", "5", "EIO"},
    {"unlink", "5", "EIO"},
    {"unlink", "kill", "killed"},
    {"malloc", "12", "no memory"},
    {"malloc", "12", "no memory from then on", 0},
};

struct Job {
  const Scenario* scenario;
  const Fault* fault;
  long at;
};

Words with_fault(const Fault& fault, long at, const std::string& folder, const std::string& report) {
  return {"LD_PRELOAD=" REWIRE_FAULTS,
          "FAULT_UNDER=" + folder,
          std::string("FAULT_CALL=") + fault.call,
          std::string("FAULT_ERROR=") + fault.error,
          fmt::format("FAULT_AT={}", at),
          fmt::format("FAULT_TIMES={}", fault.times),
          "FAULT_REPORT=" + report};
}

class Run {
 public:
  explicit Run(std::vector<std::string> words) : words_(std::move(words)), scenarios_(scenarios()) {}

  int finish() {
    const auto start = std::chrono::steady_clock::now();
    for (const Scenario& scenario : scenarios_) {
      const std::string folder = undisturbed(scenario);
      prepare(scenario, folder);
      const Ended ended = run_process(command_in(scenario.begin, folder), environment_in(scenario, folder),
                                      folder, {.seconds = 120});
      if (ended.code != 0) throw std::runtime_error(scenario.name + " undisturbed: " + ended.err);
    }
    const std::vector<Job> jobs = all_jobs();
    in_parallel(jobs.size(), [&](std::size_t i) { check(jobs[i], i); });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    fmt::print("{} faults, {} met, {} answered wrongly, in {:.1f} s\n", jobs.size(), met_, failures_,
               took.count());
    return failures_ == 0 ? 0 : 1;
  }

 private:
  std::string undisturbed(const Scenario& scenario) const {
    return root_.file("undisturbed " + scenario.name);
  }

  bool is_wanted(const Scenario& scenario, const Fault& fault) const {
    const std::string name = fmt::format("{}: {} {}", scenario.name, fault.call, fault.name);
    return words_.empty() || std::ranges::any_of(words_, [&](const std::string& word) {
             return name.find(word) != std::string::npos;
           });
  }

  /// How many calls of the kind an undisturbed run makes (of a sweep: the process of the sweep or of a run).
  static long count(const Scenario& scenario, const char* call) {
    const TemporaryFolder place;
    const std::string folder = place.file("f"), report = place.file("calls");
    prepare(scenario, folder);
    const Words environment =
        with_fault({call, "0", ""}, 0, folder, report) + environment_in(scenario, folder);
    run_process(command_in(scenario.begin, folder), environment, folder, {.seconds = 60});
    const auto size = fs::exists(report) ? fs::file_size(report) : 0;
    return static_cast<long>(size);
  }

  std::vector<Job> all_jobs() {
    std::vector<std::pair<const Scenario*, const char*>> pairs;
    for (const Scenario& scenario : scenarios_) {
      for (const Fault& fault : kFaults) {
        const std::pair<const Scenario*, const char*> pair(&scenario, fault.call);
        if (is_wanted(scenario, fault) && std::ranges::find(pairs, pair) == pairs.end())
          pairs.push_back(pair);
      }
    }
    std::vector<long> counts(pairs.size());
    in_parallel(pairs.size(), [&](std::size_t i) { counts[i] = count(*pairs[i].first, pairs[i].second); });
    std::vector<Job> jobs;
    const testing::Slice slice = takes_all() || !words_.empty() ? testing::Slice() : testing::slice();
    std::uint64_t others = 0;
    for (const Scenario& scenario : scenarios_) {
      for (const Fault& fault : kFaults) {
        if (!is_wanted(scenario, fault)) continue;
        const auto pair =
            std::ranges::find(pairs, std::pair<const Scenario*, const char*>(&scenario, fault.call));
        const long calls = counts[static_cast<std::size_t>(pair - pairs.begin())];
        std::uint64_t number = 0;
        for (const long at : points(calls, fault)) {
          if (number++ == 0 || slice.takes(others++)) jobs.push_back({&scenario, &fault, at});
        }
      }
    }
    return jobs;
  }

  /// Of so many calls: all, or a few from the first to the last. Of those for memory, which are very many,
  /// more where it begins.
  static std::vector<long> points(long calls, const Fault& fault) {
    const bool memory = std::string_view(fault.call) == "malloc";
    const long most = memory ? (takes_all() ? 400 : 4) : (takes_all() ? calls : 3);
    std::vector<long> points;
    for (long i = 0; i < std::min(most, calls); ++i) {
      const double part = calls <= most ? 0 : static_cast<double>(i) / static_cast<double>(most);
      const long at = calls <= most
                          ? i + 1
                          : 1 + static_cast<long>(static_cast<double>(calls) * (memory ? part * part : part));
      points.push_back(at);
    }
    return points;
  }

  void check(const Job& job, std::size_t number) {
    const Scenario& scenario = *job.scenario;
    const TemporaryFolder place;
    const std::string folder = place.file("f"), report = place.file("met");
    prepare(scenario, folder);
    const Words environment =
        with_fault(*job.fault, job.at, folder, report) + environment_in(scenario, folder);
    const Words command = command_in(scenario.begin, folder);
    const Ended ended = run_process(command, environment, folder, {.seconds = 60});
    const bool killed = std::string_view(job.fault->error) == "kill" && ended.code == 128 + 9;
    std::string fault = killed ? "" : judge_end(ended, scenario.most_failures);
    if (fault.empty() && ended.code == 0) {
      const std::string difference = scenario.compare(folder, undisturbed(scenario));
      if (!difference.empty()) fault = "code 0, and " + difference;
    }
    if (fault.empty()) fault = recover(scenario, folder, undisturbed(scenario));
    const std::lock_guard lock(mutex_);
    if (fs::exists(report)) ++met_;
    if (fault.empty()) return;
    ++failures_;
    fmt::print("FAILED {} (fault {}): {} {}, {}\n  {}\n  it said: {}\n", scenario.name, number,
               job.fault->call, job.at, job.fault->name, fault, ended.err);
    fmt::print("  {}\n", shell_text(command, environment, folder));
    std::fflush(stdout);
  }

  const std::vector<std::string> words_;
  const std::vector<Scenario> scenarios_;
  const TemporaryFolder root_;
  std::mutex mutex_;
  std::size_t failures_ = 0, met_ = 0;
};

}  // namespace
}  // namespace rewire::test

int main(int argc, char** argv) {
  ::unsetenv("REWIRE_PLUGIN_PATH");
  try {
    return rewire::test::Run(std::vector<std::string>(argv + 1, argv + argc)).finish();
  } catch (const std::exception& error) {
    fmt::print(stderr, "faults_test: {}\n", error.what());
    return 1;
  }
}
