// SIGINT, SIGTERM and SIGHUP as a wish that the training loop asks for: the first lets it save, a second one,
// whichever it is, ends the process at once. Until the loop asks for the first time there is nothing to save,
// and compiling may take minutes: a signal then ends the process at once, in one line. One that is ignored
// where the process begins (nohup) stays ignored.
#pragma once

#include <stdexcept>
#include <string>

namespace rewire::cli {

/// A command ended early because a signal asked for it; its work is saved. Exit 128 + signal.
class Stopped : public std::runtime_error {
 public:
  Stopped(int signal, const std::string& message) : std::runtime_error(message), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// From now on. `line`, with its end, must outlive the process's work: it is written to stderr at once when the first
/// signal comes that is a wish. Null: nothing is.
void listen_for_stop(const char* line = nullptr);
/// The signal that came since the first call, or 0.
int stop_signal();

}  // namespace rewire::cli
