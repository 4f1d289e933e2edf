#include "tests/cli/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/support/temporary_folder.h"

extern char** environ;

namespace rewire::test {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

Outcome rewire_command(const std::vector<std::string>& arguments, const std::string& standard_output) {
  const TemporaryFolder folder;
  const std::string out = standard_output.empty() ? folder.file("out") : standard_output;
  const std::string err = folder.file("err");
  std::vector<std::string> words = {REWIRE_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, REWIRE_BINARY, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " REWIRE_BINARY);
  int status = 0;
  ::waitpid(child, &status, 0);

  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (standard_output.empty()) outcome.out = read_text(out);
  outcome.err = read_text(err);
  return outcome;
}

}  // namespace rewire::test
