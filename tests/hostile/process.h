// One process under limits: it is given no terminal and no input, as much time and memory as it may need, and
// none of root's power to read what a mode forbids. What it said, and what it took, comes back.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

namespace rewire::test {

using Words = std::vector<std::string>;

inline Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

struct Limits {
  double seconds = 20;
  std::size_t address_space = std::size_t{8} << 30;  // 0: any
  double kill_after = 0;                             // seconds until SIGKILL, as part of the test; 0: none
};

struct Ended {
  int code = -1;      // the exit code; 128 + the signal's number if one ended it
  bool hung = false;  // it was killed at the limit
  std::size_t peak_bytes = 0;
  double seconds = 0;
  std::string out, err;
};

/// Runs it in `folder` and waits; it and its children are killed at the limit. `environment`: NAME=value,
/// beside the test's own.
Ended run_process(const Words& command, const Words& environment, const std::string& folder,
                  const Limits& limits = {});

/// The command line that does the same in a shell.
std::string shell_text(const Words& command, const Words& environment, const std::string& folder);

/// Calls `work` for 0, 1, …, count - 1 on as many threads as there are cores, a process each.
template <class Work>
void in_parallel(std::size_t count, Work work) {
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      for (std::size_t item = next++; item < count; item = next++) work(item);
    });
  }
}

}  // namespace rewire::test
