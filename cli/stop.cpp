#include "cli/stop.h"

#include <csignal>

namespace rewire::cli {
namespace {

volatile std::sig_atomic_t received = 0;

void note(int signal) {
  if (received != 0) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  received = signal;
}

}  // namespace

void listen_for_stop() {
  struct sigaction action{};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

int stop_signal() {
  return received;
}

}  // namespace rewire::cli
