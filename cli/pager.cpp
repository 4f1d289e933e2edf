#include "cli/pager.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>

#include "cli/streams.h"

extern char** environ;

namespace rewire::cli {
namespace {

bool is_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  const std::string folders = path == nullptr ? "" : path;
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    if (::access((folders.substr(at, end - at) + "/" + program).c_str(), X_OK) == 0) return true;
    at = end + 1;
  }
  return false;
}

/// Returns a command for sh, or "" if there is no pager.
std::string pager_command() {
  for (const char* name : {"REWIRE_PAGER", "PAGER"}) {
    if (const char* command = std::getenv(name)) return command;
  }
  return is_in_path("less") ? "less" : "";
}

/// Sends stdout through a pager.
class LentOutput {
 public:
  explicit LentOutput(const std::string& command) {
    std::fflush(stdout);
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return;
    // less then shows colours, ends at once if the text fits on a screen, and leaves the text there.
    ::setenv("LESS", "FRX", 0);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, pipe[0], STDIN_FILENO);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);  // because this process ignores it
    ::posix_spawnattr_setsigdefault(&attributes, &defaults);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    std::array<char*, 4> words = {const_cast<char*>("sh"), const_cast<char*>("-c"),
                                  const_cast<char*>(command.c_str()), nullptr};
    if (::posix_spawn(&pager_, "/bin/sh", &actions, &attributes, words.data(), environ) != 0) pager_ = -1;
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    ::close(pipe[0]);
    if (pager_ > 0) {
      terminal_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
      ::dup2(pipe[1], STDOUT_FILENO);
      struct sigaction ignore{};
      ignore.sa_handler = SIG_IGN;
      ::sigaction(SIGINT, &ignore, &interrupt_);  // while the pager runs, Ctrl-C is for the pager
    }
    ::close(pipe[1]);
  }
  LentOutput(const LentOutput&) = delete;
  LentOutput& operator=(const LentOutput&) = delete;

  /// Waits for the end of the pager. Returns false if it could not run.
  bool give_back() {
    if (pager_ <= 0) return false;
    std::fflush(stdout);
    std::clearerr(stdout);
    ::dup2(terminal_, STDOUT_FILENO);
    ::close(terminal_);
    int status = 0;
    while (::waitpid(pager_, &status, 0) < 0 && errno == EINTR) continue;
    ::sigaction(SIGINT, &interrupt_, nullptr);
    pager_ = -1;
    constexpr int kNoSuchCommand = 127;
    return !WIFEXITED(status) || WEXITSTATUS(status) != kNoSuchCommand;
  }
  ~LentOutput() { give_back(); }

 private:
  pid_t pager_ = -1;
  int terminal_ = -1;
  struct sigaction interrupt_{};
};

/// Returns false if the command could not run.
bool print_to(const std::string& command, const std::function<void()>& print) {
  LentOutput lent(command);
  try {
    print();
  } catch (const std::system_error& error) {
    if (error.code().value() != EPIPE) throw;
  }
  return lent.give_back();
}

}  // namespace

void page(bool wanted, const std::function<void()>& print) {
  const std::string command = wanted && ::isatty(STDOUT_FILENO) == 1 ? pager_command() : "";
  if (command.empty() || !print_to(command, print)) print();
}

void page_through_man(const std::function<void()>& print_roff, const std::function<void()>& print_plain) {
  if (::isatty(STDOUT_FILENO) != 1) return print_roff();
  if (!is_in_path("man") || !print_to("man -l -", print_roff)) page(true, print_plain);
}

}  // namespace rewire::cli
