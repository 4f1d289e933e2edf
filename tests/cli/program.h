// Runs the rewire binary and hands back what it said.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace rewire::test {

struct Outcome {
  int code = -1;  // the exit code; 128 + the signal's number if one ended it
  std::string out, err;
};

/// `standard_output` is a file to write stdout to instead of capturing it.
Outcome rewire_command(const std::vector<std::string>& arguments, const std::string& standard_output = "");

/// The same without waiting: for commands that are interrupted.
class RunningCommand {
 public:
  /// `environment`: NAME=value, beside the test's own.
  explicit RunningCommand(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& environment = {},
                          const std::string& standard_output = "", const std::string& standard_error = "");
  ~RunningCommand();
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  bool running() const;  // it has not ended yet
  void signal(int number) const;
  Outcome wait();

 private:
  struct Files;
  std::unique_ptr<Files> files_;
  int child_ = -1;
};

std::string read_text(const std::string& path);
void write_text(const std::string& path, const std::string& text);

}  // namespace rewire::test
