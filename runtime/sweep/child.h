// Runs this program as a separate process, which has its own peak memory and cannot end this one.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

struct ChildOutcome {
  int code = -1;          // the exit code; 128 + the signal's number if one ended it
  std::string out;        // stdout
  std::string complaint;  // the last line of stderr that begins with "rewire: ", without that
};

/// Runs this program's own file with `arguments` and waits. A signal that `stop_signal` reports is passed on
/// once: a terminal's Ctrl-C reaches the child only in this way. `on_text` gets whole lines of stderr as
/// they come. If this process dies, the child is asked to stop. Throws UserError if no process can be made.
ChildOutcome run_child(const std::vector<std::string>& arguments, const std::function<int()>& stop_signal,
                       const std::function<void(std::string_view)>& on_text);

}  // namespace rewire::runtime
