#include "tests/cli/started.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

extern char** environ;

namespace rewire::test {

StartedCommand::StartedCommand(const std::vector<std::string>& arguments, const std::function<void()>& setup,
                               const std::vector<std::string>& environment) {
  std::vector<std::string> words = {REWIRE_BINARY}, added = environment;
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv, variables;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  for (std::string& variable : added) variables.push_back(variable.data());  // the first of a name counts
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  variables.push_back(nullptr);
  const std::string out = folder_.file("out"), err = folder_.file("err");
  child_ = ::fork();
  if (child_ < 0) throw std::runtime_error("cannot start " REWIRE_BINARY);
  if (child_ != 0) return;
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
  ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600), 1);
  ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600), 2);
  setup();
  ::execve(REWIRE_BINARY, argv.data(), variables.data());
  ::_exit(127);
}

StartedCommand::~StartedCommand() {
  if (child_ < 0) return;
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

bool StartedCommand::running() const {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

void StartedCommand::signal(int number) const {
  ::kill(child_, number);
}

std::string StartedCommand::err() const {
  return read_text(folder_.file("err"));
}

Outcome StartedCommand::wait() {
  int status = 0;
  ::waitpid(child_, &status, 0);
  child_ = -1;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(folder_.file("out")),
          err()};
}

}  // namespace rewire::test
