// Runs this program as a separate process, which has its own peak memory and cannot end this one.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/sweep/places.h"

namespace rewire::runtime {

struct ChildOutcome {
  int code = -1;          // the exit code; 128 + the signal's number if one ended it
  std::string out;        // stdout
  std::string complaint;  // the last line of stderr that begins with "rewire: ", without that
};

/// A process of this program's own file. A terminal's Ctrl-C does not reach it; if this process dies, it is asked to
/// stop. Destroyed before it has ended, it is asked to stop, and waited for.
class Child {
 public:
  /// Starts it with these arguments. `on_text` gets whole lines of its stderr as they come. Throws UserError if no
  /// process can be made.
  Child(const std::vector<std::string>& arguments, const ProcessPlace& place,
        std::function<void(std::string_view)> on_text);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Passes a signal on, once, unless the process was waited for.
  void pass_on(int signal);
  /// Reads what the children have written; waits for it 100 ms at most.
  static void read(std::span<const std::unique_ptr<Child>> children);
  /// Returns whether it has closed its output, as at its end.
  bool is_silent() const;
  /// Waits for its end. Called once.
  ChildOutcome outcome();

 private:
  struct Pipe;

  void take_errors();

  std::function<void(std::string_view)> on_text_;
  std::unique_ptr<Pipe> out_, err_;
  int process_ = -1;
  std::string out_text_, err_text_;
  std::size_t passed_on_ = 0;  // of err_text_
  bool was_signalled_ = false;
};

}  // namespace rewire::runtime
