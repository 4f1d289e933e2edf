// Handles a process that ends too early. This code allocates nothing and uses no stdio and no locks.
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

/// The process whose main() is running, or 0. A child that is forked from it is not guarded.
std::atomic<pid_t> guarded{0};
std::array<struct sigaction, kCrashes.size()> before{};

bool at_work() {
  return guarded == ::getpid();
}

[[noreturn]] void end(int code) {
  ::syscall(SYS_exit_group, code);
  __builtin_unreachable();
}

/// Writes all words with one write(), so that they stay one line.
void say(std::initializer_list<const char*> words) {
  std::array<char, 512> line{};
  for (const char* word : words) std::strncat(line.data(), word, line.size() - std::strlen(line.data()) - 1);
  static_cast<void>(!::write(STDERR_FILENO, line.data(), std::strlen(line.data())));
}

constexpr const char* kUnfinished = " before the command was done: do not rely on its results\n";

/// Runs at exit() and quick_exit().
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
         " after a plugin's code had run: `rewire plugin test` shows whether the plugin is at fault\n"});
  }
  for (std::size_t i = 0; i < kCrashes.size(); ++i) {
    if (kCrashes[i] == signal) ::sigaction(signal, &before[i], nullptr);
  }
  ::raise(signal);
}

/// Ends the process before the destructors of plugins run after main(), because they could change the
/// outcome of the command. It is registered last and therefore called first.
void end_before_plugins(int code, void*) {
#ifndef REWIRE_SANITIZED  // the sanitizer reports after this
  if (!runtime::PluginAtWork::any()) return;
  std::fflush(nullptr);
  end(code);
#else
  static_cast<void>(code);
#endif
}

/// Uses a separate stack, so that an overflow of the main stack can be reported.
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

/// Libraries that call _exit get here, as the program's symbols come before libc's.
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
