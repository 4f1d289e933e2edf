#include "cli/stop.h"

#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <string_view>

#include "cli/streams.h"

namespace rewire::cli {
namespace {

volatile std::sig_atomic_t received = 0, asked_for = 0;
const char* first_line = nullptr;  // set before the handler is installed, as the next
bool speaks = true;
// A sweep passes its signals on to its runs, which may get the same one from elsewhere, as with all processes of a job.
bool is_run_of_sweep = false;
timespec first_time{};
constexpr time_t kRepeatSeconds = 2;

/// Whether a signal after the first one may be the same request. It is safe in a signal handler.
bool repeats() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return is_run_of_sweep && asked_for != 0 && now.tv_sec - first_time.tv_sec < kRepeatSeconds;
}

/// Writes the message. It is safe in a signal handler.
void say_stopped(int signal) {
  const std::array<char, 2> digits = {static_cast<char>('0' + signal / 10),
                                      static_cast<char>('0' + signal % 10)};
  const std::size_t blank = signal < 10 ? 1 : 0;
  if (::isatty(STDERR_FILENO) == 1) write_unbuffered("\r\x1b[K");  // the moving line
  write_unbuffered("rewire: stopped by signal ");
  write_unbuffered({digits.data() + blank, digits.size() - blank});
  write_unbuffered(" before its first step: nothing has changed\n");
}

void say_first(const char* line) {
  if (::isatty(STDERR_FILENO) == 1) write_unbuffered("\r\x1b[K");  // the moving line, and ^C
  write_unbuffered(line);
}

void note(int signal) {
  const int cause = errno;
  const bool is_first = received == 0;
  if (is_first) {
    ::clock_gettime(CLOCK_MONOTONIC, &first_time);
  } else if (repeats()) {
    errno = cause;
    return;
  }
  // Set before anything is written: a blocked terminal stops this thread, and the next signal must end the
  // process.
  received = signal;
  if (!is_first || asked_for == 0) {
    if (is_first && speaks) say_stopped(signal);
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  if (first_line != nullptr) say_first(first_line);
  errno = cause;
}

}  // namespace

void listen_for_stop(const char* line, bool says) {
  int signal_at_end_of_parent = 0;
  ::prctl(PR_GET_PDEATHSIG, &signal_at_end_of_parent);
  is_run_of_sweep = signal_at_end_of_parent != 0;  // runtime/sweep/child.cpp sets it
  first_line = line;
  speaks = says;
  struct sigaction action{};
  action.sa_handler = note;
  // The handler runs on another stack, which FinishGuard made. While oneDNN's
  // sgemm runs, the stack pointer may point into heap memory (oneDNN issue
  // 4845). A handler's frame there would overwrite the memory before it.
  action.sa_flags = SA_RESTART | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    struct sigaction inherited{};
    sigaction(signal, nullptr, &inherited);
    // nohup ignores signals, and so does a shell without job control for its background processes.
    if (inherited.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

int stop_signal() {
  asked_for = 1;
  return received;
}

}  // namespace rewire::cli
