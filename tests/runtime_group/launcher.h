// Open MPI's launcher, for tests that start ranks.
#pragma once

#include <fmt/format.h>
#include <stdio.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>

#include "tests/support/catch.h"

namespace rewire::test {

struct Ended {
  int code = 0;  // as wait() gives it
  std::string text;
  double seconds = 0;
};

// A container may forbid that one process reads another's memory, which MPI then says.
#define REWIRE_NO_SINGLE_COPY "OMPI_MCA_btl_vader_single_copy_mechanism=none"
// Ranks share cores here.
#define REWIRE_MPIRUN "timeout -k 5 120 mpirun --allow-run-as-root --oversubscribe --bind-to none"
inline constexpr const char *kNoSingleCopy = REWIRE_NO_SINGLE_COPY, *kMpirun = REWIRE_MPIRUN,
                            *kLauncher = REWIRE_NO_SINGLE_COPY " " REWIRE_MPIRUN;

/// Whether Open MPI's launcher is here and works.
inline bool has_mpirun() {
  static const bool has = std::system("mpirun --version 2>/dev/null | grep -q 'Open MPI'") == 0 &&
                          std::system(fmt::format("{} -n 2 true >/dev/null 2>&1", kLauncher).c_str()) == 0;
  if (!has) WARN("not run: no mpirun of Open MPI that works here; install openmpi-bin");
  return has;
}

/// Runs a line of the shell, and returns what it writes to stdout.
inline Ended run_line(const std::string& line) {
  const auto begin = std::chrono::steady_clock::now();
  FILE* pipe = ::popen(line.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ended ended;
  std::array<char, 4096> buffer;
  while (::fgets(buffer.data(), buffer.size(), pipe) != nullptr) ended.text += buffer.data();
  ended.code = ::pclose(pipe);
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return ended;
}

}  // namespace rewire::test
