// The program's exit codes. cli/main.cpp uses them, and help prints them.
#pragma once

#include <string_view>
#include <vector>

namespace rewire::cli {

inline constexpr int kFailure = 1;     // a negative answer, or a fault of Rewire
inline constexpr int kBadRequest = 2;  // the user can fix it
inline constexpr int kStopped = 128;   // plus the number of the signal

struct ExitCode {
  std::string_view code, meaning;
};

inline std::vector<ExitCode> exit_codes() {
  static_assert(kFailure == 1 && kBadRequest == 2 && kStopped == 128);
  return {{"0", "done"},
          {"1", "the answer is no (a check fails), or a fault of Rewire"},
          {"2",
           "a request that you can mend: an option, a file, a value, too little memory, a loss that is not "
           "finite"},
          {"130", "stopped by Ctrl-C (SIGINT); a run that trained is saved"},
          {"128+N", "stopped by signal N: 129 SIGHUP, 143 SIGTERM; 141: the reader of stdout has gone"}};
}

}  // namespace rewire::cli
