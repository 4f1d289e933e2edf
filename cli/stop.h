// SIGINT, SIGTERM, SIGHUP and SIGUSR1 (a SLURM job's warning before its end) as a request that the training loop polls. The first signal lets the loop save;
// a second one of any kind ends the process at once, but one within two seconds of the first does not end a sweep's run. Before the first poll there is nothing to save and
// compiling may take minutes, so a signal ends the process at once, with one line. A signal that is ignored
// when the process begins (nohup) stays ignored.
#pragma once

#include <stdexcept>
#include <string>

namespace rewire::cli {

/// Ends a command early because a signal asked for it; its work is saved. Exit 128 + signal.
class Stopped : public std::runtime_error {
 public:
  Stopped(int signal, const std::string& message) : std::runtime_error(message), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// Starts listening. The first signal after the first poll writes `line` to stderr at once; null: nothing.
/// `line` includes its line feed and must outlive the process's work. `says`: false for one of several processes that
/// does not speak for all; a signal before the first poll then ends it without a line.
void listen_for_stop(const char* line = nullptr, bool says = true);
/// Polls: returns the signal received since listening began, or 0.
int stop_signal();

}  // namespace rewire::cli
