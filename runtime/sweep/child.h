// One run of this program as a process of its own: its peak memory is its own, and what ends it ends no
// other.
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

/// Runs this program's own file with `arguments` and waits. A signal that `stop_signal` reports is passed on,
/// once: a terminal's Ctrl-C reaches the child by this way only. `on_text` gets stderr by whole lines as they
/// come. Should this process die, the child is told to stop. UserError if no process can be made.
ChildOutcome run_child(const std::vector<std::string>& arguments, const std::function<int()>& stop_signal,
                       const std::function<void(std::string_view)>& on_text);

}  // namespace rewire::runtime
