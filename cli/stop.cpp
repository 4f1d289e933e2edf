#include "cli/stop.h"

#include <csignal>

namespace rewire::cli {
namespace {

volatile std::sig_atomic_t received = 0;

void note(int signal) {
  received = signal;
}

}  // namespace

void listen_for_stop() {
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

int stop_signal() {
  return received;
}

}  // namespace rewire::cli
