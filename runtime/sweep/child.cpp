#include "runtime/sweep/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

constexpr std::string_view kOurs = "rewire: ";
constexpr int kPollMilliseconds = 100;

struct Pipe {
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      user_error("cannot start a run: {}", std::generic_category().message(errno));
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(std::size_t i) {
    if (ends[i] >= 0) ::close(ends[i]);
    ends[i] = -1;
  }
  std::array<int, 2> ends{-1, -1};
};

/// In the child, between fork and exec: nothing here may allocate.
[[noreturn]] void become(char* const* arguments, const Pipe& out, const Pipe& err, pid_t parent) {
  ::setpgid(0, 0);  // so that the terminal's signals do not reach it
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out.ends[1], STDOUT_FILENO);
  ::dup2(err.ends[1], STDERR_FILENO);
  ::execv("/proc/self/exe", arguments);
  ::_exit(127);
}

/// Reads what the pipe holds now, and closes it at its end.
void take(Pipe& pipe, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t size = ::read(pipe.ends[0], buffer.data(), buffer.size());
  if (size < 0 && errno == EINTR) return;
  if (size <= 0) return pipe.close_end(0);
  text.append(buffer.data(), static_cast<std::size_t>(size));
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string last_complaint(std::string_view text) {
  std::string found;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.starts_with(kOurs)) found = line.substr(kOurs.size());
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return found;
}

}  // namespace

ChildOutcome run_child(const std::vector<std::string>& arguments, const std::function<int()>& stop_signal,
                       const std::function<void(std::string_view)>& on_text) {
  std::vector<std::string> words = {"rewire"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  Pipe out, err;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) user_error("cannot start a run: {}", std::generic_category().message(errno));
  if (child == 0) become(pointers.data(), out, err, parent);
  out.close_end(1);
  err.close_end(1);

  ChildOutcome outcome;
  std::string errors;
  std::size_t passed_on = 0;
  bool told = false;
  while (out.ends[0] >= 0 || err.ends[0] >= 0) {
    if (const int signal = stop_signal(); signal != 0 && !told) {
      ::kill(child, signal);
      told = true;
    }
    std::array<pollfd, 2> watched = {{{out.ends[0], POLLIN, 0}, {err.ends[0], POLLIN, 0}}};
    if (::poll(watched.data(), watched.size(), kPollMilliseconds) <= 0) continue;
    if (watched[0].revents != 0) take(out, outcome.out);
    if (watched[1].revents != 0) take(err, errors);
    // Passes on whole lines only: no split characters, and no other output within a line.
    const std::size_t whole = err.ends[0] < 0 ? errors.size() : errors.rfind('\n') + 1;
    if (whole > passed_on) on_text(std::string_view(errors).substr(passed_on, whole - passed_on));
    passed_on = std::max(passed_on, whole);
  }
  outcome.code = wait_for(child);
  outcome.complaint = last_complaint(errors);
  return outcome;
}

}  // namespace rewire::runtime
