// What ends the process behind main's back: code of a plugin that calls exit, or crashes. A command that did
// not finish never ends with 0, and what ended it is named.
#pragma once

namespace rewire::cli {

/// From its beginning to its end the process is main's to end: exit, _exit(0) and quick_exit in between, from
/// whichever thread, become one line on stderr and exit code 1, and so does a crash in a call of a plugin. A
/// crash elsewhere stays the crash that it is, with a line if a plugin's code has run before. Main's first
/// object: it goes when main returns.
class FinishGuard {
 public:
  FinishGuard();
  ~FinishGuard();
  FinishGuard(const FinishGuard&) = delete;
  FinishGuard& operator=(const FinishGuard&) = delete;
};

}  // namespace rewire::cli
