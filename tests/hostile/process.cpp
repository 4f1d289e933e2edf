#include "tests/hostile/process.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "tests/hostile/steps.h"
#include "tests/support/temporary_folder.h"

extern char** environ;

namespace rewire::test {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  return result;
}

/// In the child, between fork and exec: calls of the system only.
[[noreturn]] void become(char* const* words, char* const* variables, const char* folder, const char* out,
                         const char* err, const Limits& limits) {
  ::setpgid(0, 0);
  if (::chdir(folder) != 0) ::_exit(126);
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  const int descriptors[] = {::open("/dev/null", O_RDONLY), ::open(out, flags, 0600),
                             ::open(err, flags, 0600)};
  for (int i = 0; i < 3; ++i) {
    if (::dup2(descriptors[i], i) < 0) ::_exit(126);
    if (descriptors[i] > 2) ::close(descriptors[i]);
  }
  // Root reads what a mode forbids to everybody; without these it is refused as anybody else.
  ::prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0);
  ::prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH, 0, 0, 0);
  if (limits.address_space != 0) {
    const struct rlimit limit{limits.address_space, limits.address_space};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  const struct rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::execve(words[0], words, variables);
  ::_exit(127);
}

/// True if it has ended within so many seconds.
bool wait_until(int descriptor, double seconds) {
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left < 0) return false;
    pollfd watched{descriptor, POLLIN, 0};
    if (::poll(&watched, 1, static_cast<int>(left) + 1) > 0) return true;
  }
}

}  // namespace

Ended run_process(const Words& command, const Words& environment, const std::string& folder,
                  const Limits& limits) {
  const TemporaryFolder streams;
  const std::string out = streams.file("out"), err = streams.file("err");
  Words words = command, added = environment;
  std::vector<char*> argv = pointers(words);
  argv.push_back(nullptr);
  std::vector<char*> variables = pointers(added);  // the first of a name counts
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  variables.push_back(nullptr);

  const auto start = Clock::now();
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  if (child == 0) become(argv.data(), variables.data(), folder.c_str(), out.c_str(), err.c_str(), limits);
  ::setpgid(child, child);  // whoever of the two is first
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  if (descriptor < 0) throw std::runtime_error(std::string("pidfd_open: ") + std::strerror(errno));
  Ended ended;
  const bool killed = limits.kill_after > 0 && !wait_until(descriptor, limits.kill_after);
  ended.hung = !killed && !wait_until(descriptor, limits.seconds);
  if (killed || ended.hung) ::kill(-child, SIGKILL);
  ::close(descriptor);
  int status = 0;
  struct rusage usage{};
  while (::wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  ended.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ended.peak_bytes = static_cast<std::size_t>(usage.ru_maxrss) * 1024;
  ended.out = read_bytes(out);
  ended.err = read_bytes(err);
  return ended;
}

std::string shell_text(const Words& command, const Words& environment, const std::string& folder) {
  const auto quoted = [](const std::string& word) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,+";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
    std::string text = "$'";
    for (const char character : word) {
      const auto code = static_cast<unsigned char>(character);
      if (code < 0x20 || code >= 0x7f || character == '\'' || character == '\\') {
        constexpr std::string_view kDigits = "0123456789abcdef";
        text += {'\\', 'x', kDigits[code >> 4], kDigits[code & 15]};
      } else {
        text += character;
      }
    }
    return text + "'";
  };
  std::string text = "cd " + quoted(folder) + " && env";
  for (const Words& list : {environment, command}) {
    for (const std::string& word : list) text += " " + quoted(word);
  }
  return text;
}

}  // namespace rewire::test
