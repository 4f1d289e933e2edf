// Runs work with a plugin's code in a child process with limits. A crash, exit or hang there becomes a line
// of text here, and this process goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rewire::runtime {

struct IsolationLimits {
  std::chrono::milliseconds silence;   // the longest time without a message
  std::int64_t processor_seconds = 0;  // of all its threads together
  std::int64_t more_memory_bytes = 0;  // of address space, beyond this process's own
  bool prints = false;                 // its output goes to stderr; else nowhere
};
/// Limits for opening a library and reading its description.
IsolationLimits loading_limits();

/// One message of the child: any number of texts.
using Fields = std::vector<std::string>;
using Send = std::function<void(const Fields&)>;

/// Runs `work` in a copy of this process, and passes its messages to `take`, here, as they come. Returns
/// nothing if it completes, else how it ended: "it crashed (SIGSEGV)". Rethrows an exception of `work` here,
/// with its message, as UserError, RuntimeFailure or InternalError. Throws UserError if no child can be
/// made.
std::optional<std::string> run_isolated(const IsolationLimits& limits,
                                        const std::function<void(const Send&)>& work,
                                        const std::function<void(const Fields&)>& take);

}  // namespace rewire::runtime
