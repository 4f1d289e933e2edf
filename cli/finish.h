// Guards against a process end that main does not control: plugin code that calls exit, or crashes. A
// command that did not finish never ends with 0, and the message names the cause.
#pragma once

namespace rewire::cli {

/// While it lives, only main may end the process. exit, _exit(0) and quick_exit, from any thread, become one
/// line on stderr and exit code 1, as does a crash in a call of a plugin. A crash elsewhere stays a crash,
/// with a line if a plugin's code has run before. It is main's first object and lives until main returns.
class FinishGuard {
 public:
  FinishGuard();
  ~FinishGuard();
  FinishGuard(const FinishGuard&) = delete;
  FinishGuard& operator=(const FinishGuard&) = delete;
};

}  // namespace rewire::cli
