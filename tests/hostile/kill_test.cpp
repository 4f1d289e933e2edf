// kill -9 at random points of a training and of going on with it, several times a run: gone on with to its
// end, it is the undisturbed one to the last byte. FAULT_SEED in the environment repeats a run of the test;
// HOSTILE_ALL=1 takes 600 points, otherwise 40.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <random>

#include "tests/hostile/good.h"
#include "tests/hostile/scenario.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

constexpr int kKillsARun = 3;

class Run {
 public:
  explicit Run(unsigned seed) : seed_(seed) {}

  int finish() {
    prepare(training_, undisturbed_);
    const Ended whole = run_process(command_in(training_.begin, undisturbed_),
                                    environment_in(training_, undisturbed_), undisturbed_, {.seconds = 120});
    if (whole.code != 0) throw std::runtime_error(whole.err);
    const auto start = std::chrono::steady_clock::now();
    const std::size_t wanted = takes_all() ? 600 : 40;
    // A run that comes to its end before a kill gives fewer points than it was meant to.
    for (std::size_t first = 0; kills_ < wanted; first += kBatch)
      in_parallel(kBatch, [&](std::size_t i) { check(first + i, whole.seconds); });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    fmt::print("{} kills with seed {}, {} runs not the same, in {:.1f} s\n", kills_.load(), seed_, failures_,
               took.count());
    return failures_ == 0 ? 0 : 1;
  }

 private:
  static constexpr std::size_t kBatch = 16;

  void check(std::size_t number, double whole_seconds) {
    std::mt19937_64 random(seed_ + number);
    const TemporaryFolder place;
    const std::string folder = place.file("f");
    prepare(training_, folder);
    std::string points, fault;
    for (int i = 0; i < kKillsARun && fault.empty(); ++i) {
      const bool begun = std::filesystem::exists(folder + "/" + training_.begun);
      const double after = std::uniform_real_distribution<>(0.001, whole_seconds)(random);
      points += fmt::format(" {:.4f} s", after);
      const Ended ended = run_process(command_in(begun ? training_.resume : training_.begin, folder),
                                      environment_in(training_, folder), folder, {.kill_after = after});
      if (ended.code == 128 + 9) {
        ++kills_;
        if (!std::filesystem::exists(folder + "/" + training_.begun))
          std::filesystem::remove_all(folder + "/run");
      } else {
        fault = judge_end(ended, training_.most_failures);
      }
    }
    if (fault.empty()) fault = recover(training_, folder, undisturbed_);
    if (fault.empty()) return;
    const std::lock_guard lock(mutex_);
    ++failures_;
    fmt::print("FAILED killed after{} (run {}): {}\n", points, number, fault);
    std::fflush(stdout);
  }

  const unsigned seed_;
  const Scenario training_ = scenarios().front();
  const TemporaryFolder place_;
  const std::string undisturbed_ = place_.file("undisturbed");
  std::atomic<std::size_t> kills_{0};
  std::mutex mutex_;
  std::size_t failures_ = 0;
};

}  // namespace
}  // namespace rewire::test

int main() {
  ::unsetenv("REWIRE_PLUGIN_PATH");
  const char* seed = std::getenv("FAULT_SEED");
  try {
    return rewire::test::Run(seed != nullptr ? static_cast<unsigned>(std::atoi(seed))
                                             : std::random_device()())
        .finish();
  } catch (const std::exception& error) {
    fmt::print(stderr, "kill_test: {}\n", error.what());
    return 1;
  }
}
