// Work that runs a plugin's code, in a child process with limits: what crashes there, ends the process or
// never comes back is a line of text here, and all else goes on.
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
  std::int64_t more_memory_bytes = 0;  // of address space, beyond what this process has
  bool prints = false;                 // what it writes goes to stderr; else nowhere
};
/// For opening a library and asking what it is.
IsolationLimits loading_limits();

/// One message of the child: any number of texts.
using Fields = std::vector<std::string>;
using Send = std::function<void(const Fields&)>;

/// Runs `work` in a copy of this process, and hands what it sends to `take`, here, as it comes. Nothing: it
/// is done. Else how it ended, as in "it crashed (SIGSEGV)". What `work` throws is thrown here, with its
/// message, as UserError, RuntimeFailure or InternalError. UserError also if there can be no child.
std::optional<std::string> run_isolated(const IsolationLimits& limits,
                                        const std::function<void(const Send&)>& work,
                                        const std::function<void(const Fields&)>& take);

}  // namespace rewire::runtime
