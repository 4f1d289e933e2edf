// Runs the rewire binary as a shell or a service may start it: streams closed, signals ignored, limits set.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {

class StartedCommand {
 public:
  /// `setup` runs in the child before the program does, with its streams in place; it must not allocate.
  StartedCommand(const std::vector<std::string>& arguments, const std::function<void()>& setup,
                 const std::vector<std::string>& environment = {});
  ~StartedCommand();
  StartedCommand(const StartedCommand&) = delete;
  StartedCommand& operator=(const StartedCommand&) = delete;

  bool running() const;
  void signal(int number) const;
  /// What it has written on stderr so far.
  std::string err() const;
  Outcome wait();

 private:
  TemporaryFolder folder_;
  int child_ = -1;
};

}  // namespace rewire::test
