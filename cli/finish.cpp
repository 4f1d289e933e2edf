// Where the process ends too early, little can be relied on: no allocation, no stdio, no locks.
#include "cli/finish.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "runtime/plugin/at_work.h"

namespace rewire::cli {
namespace {

constexpr int kFailure = 1;
constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

/// The process whose main is at work; 0: none. A child that was forked from it ends as it likes.
std::atomic<pid_t> guarded{0};
std::array<struct sigaction, kCrashes.size()> before{};

bool is_guarded() {
  return guarded == ::getpid();
}

[[noreturn]] void end(int code) {
  ::syscall(SYS_exit_group, code);
  __builtin_unreachable();
}

/// "rewire: plugin gain ended the process: …": one write, so that it is one line.
[[noreturn]] void complain(const char* what) {
  std::array<char, 512> line{};
  const auto append = [&](const char* text) {
    std::strncat(line.data(), text, line.size() - std::strlen(line.data()) - 1);
  };
  const char* plugin = runtime::PluginAtWork::name();
  append("rewire: ");
  append(plugin == nullptr ? "a library" : "plugin ");
  if (plugin != nullptr) append(plugin);
  append(what);
  append(" before the command was done: nothing that it was to do can be relied on\n");
  static_cast<void>(!::write(STDERR_FILENO, line.data(), std::strlen(line.data())));
  end(kFailure);
}

void on_exit() {
  if (is_guarded()) complain(" ended the process");
}

const char* crash_text(int signal) {
  switch (signal) {
    case SIGSEGV:
      return " crashed (SIGSEGV)";
    case SIGBUS:
      return " crashed (SIGBUS)";
    case SIGFPE:
      return " crashed (SIGFPE)";
    case SIGILL:
      return " crashed (SIGILL)";
    default:
      return " crashed (SIGABRT)";
  }
}

void on_crash(int signal) {
  if (is_guarded() && runtime::PluginAtWork::name() != nullptr) complain(crash_text(signal));
  for (std::size_t i = 0; i < kCrashes.size(); ++i) {
    if (kCrashes[i] == signal) ::sigaction(signal, &before[i], nullptr);
  }
  ::raise(signal);
}

/// A stack of its own: what has overflowed the main one can still be told.
void listen_for_crashes() {
  static std::array<char, 1 << 16> space;
  stack_t stack{};
  stack.ss_sp = space.data();
  stack.ss_size = space.size();
  ::sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_handler = on_crash;
  action.sa_flags = SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kCrashes.size(); ++i) ::sigaction(kCrashes[i], &action, &before[i]);
}

}  // namespace

FinishGuard::FinishGuard() {
  std::atexit(on_exit);
  std::at_quick_exit(on_exit);
  listen_for_crashes();
  guarded = ::getpid();
}

FinishGuard::~FinishGuard() {
  guarded = 0;
}

/// What libraries call by the name of _exit comes here first, for the program's symbols come before libc's.
static void exit_now(int code) {
  if (code == 0 && is_guarded()) on_exit();
  end(code);
}

}  // namespace rewire::cli

extern "C" {
[[noreturn]] __attribute__((visibility("default"))) void _exit(int code) {
  rewire::cli::exit_now(code);
  __builtin_unreachable();
}
[[noreturn]] __attribute__((visibility("default"))) void _Exit(int code) noexcept {
  rewire::cli::exit_now(code);
  __builtin_unreachable();
}
}
