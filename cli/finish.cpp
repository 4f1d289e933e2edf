// Where the process ends too early, little can be relied on: no allocation, no stdio, no locks.
#include "cli/finish.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "cli/exit_codes.h"
#include "runtime/device/sanitized.h"
#include "runtime/plugin/at_work.h"

namespace rewire::cli {
namespace {

constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

/// The process whose main is at work; 0: none. A child that was forked from it ends as it likes.
std::atomic<pid_t> guarded{0};
std::array<struct sigaction, kCrashes.size()> before{};

bool at_work() {
  return guarded == ::getpid();
}

[[noreturn]] void end(int code) {
  ::syscall(SYS_exit_group, code);
  __builtin_unreachable();
}

/// One write, so that it is one line.
void say(std::initializer_list<const char*> words) {
  std::array<char, 512> line{};
  for (const char* word : words) std::strncat(line.data(), word, line.size() - std::strlen(line.data()) - 1);
  static_cast<void>(!::write(STDERR_FILENO, line.data(), std::strlen(line.data())));
}

constexpr const char* kUnfinished =
    " before the command was done: nothing that it was to do can be relied on\n";

/// For exit and quick_exit.
void refuse_exit() {
  if (!at_work()) return;
  const char* plugin = runtime::PluginAtWork::name();
  say({"rewire: ", plugin == nullptr ? "a library" : "plugin ", plugin == nullptr ? "" : plugin,
       " ended the process", kUnfinished});
  end(kFailure);
}

const char* crash_text(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "crashed (SIGSEGV)";
    case SIGBUS:
      return "crashed (SIGBUS)";
    case SIGFPE:
      return "crashed (SIGFPE)";
    case SIGILL:
      return "crashed (SIGILL)";
    default:
      return "crashed (SIGABRT)";
  }
}

void on_crash(int signal) {
  const char* plugin = runtime::PluginAtWork::name();
  if (at_work() && plugin != nullptr) {
    say({"rewire: plugin ", plugin, " ", crash_text(signal), kUnfinished});
    end(kFailure);
  }
  if (at_work() && runtime::PluginAtWork::any()) {
    say({"rewire: ", crash_text(signal),
         ", where a plugin's code had run before: `rewire plugin test` tells whether the fault is the "
         "plugin's\n"});
  }
  for (std::size_t i = 0; i < kCrashes.size(); ++i) {
    if (kCrashes[i] == signal) ::sigaction(signal, &before[i], nullptr);
  }
  ::raise(signal);
}

/// What is registered last is called first. No more of a plugin's code is run once main has returned: what
/// its destructors do could change what the command has ended with.
void end_before_plugins(int code, void*) {
#ifndef REWIRE_SANITIZED  // whose reports come later
  if (!runtime::PluginAtWork::any()) return;
  std::fflush(nullptr);
  end(code);
#else
  static_cast<void>(code);
#endif
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
  std::atexit(refuse_exit);
  std::at_quick_exit(refuse_exit);
  listen_for_crashes();
  guarded = ::getpid();
}

FinishGuard::~FinishGuard() {
  guarded = 0;
  ::on_exit(end_before_plugins, nullptr);
}

/// What libraries call by the name of _exit comes here first: the program's symbols come before libc's.
static void exit_now(int code) {
  if (code == 0) refuse_exit();
  end(code);
}

}  // namespace rewire::cli

extern "C" {
__attribute__((visibility("default"))) void _exit(int code) {
  rewire::cli::exit_now(code);
  __builtin_unreachable();
}
__attribute__((visibility("default"))) void _Exit(int code) noexcept {
  rewire::cli::exit_now(code);
  __builtin_unreachable();
}
}
