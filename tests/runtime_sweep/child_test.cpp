// Processes of this program's own file: here the program is the test itself, which prints its help.
#include "runtime/sweep/child.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/catch.h"

namespace {

int refused_signals = 0;

}  // namespace

/// Takes the place of the C library's: a signal to more than one process would end the tests and all around them.
extern "C" int kill(pid_t process, int signal) noexcept {
  if (process <= 0) {
    ++refused_signals;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_kill, process, signal));
}

namespace rewire::test {
namespace {

using runtime::Child;
using runtime::ChildOutcome;

TEST_CASE("A child that was waited for is not signalled any more") {
  std::vector<std::unique_ptr<Child>> children;
  children.push_back(std::make_unique<Child>(std::vector<std::string>{"--help"}, runtime::ProcessPlace(),
                                             [](std::string_view) {}));
  while (!children.front()->is_silent()) Child::read(children);
  const ChildOutcome outcome = children.front()->outcome();
  CHECK(outcome.code == 0);
  CHECK(outcome.out.find("usage") != std::string::npos);
  children.front()->pass_on(SIGTERM);
  children.clear();
  CHECK(refused_signals == 0);
}

TEST_CASE("A child that is destroyed early is asked to stop, and waited for") {
  const auto start = std::chrono::steady_clock::now();
  {
    const Child child({"A child that sleeps", "--allow-running-no-tests"}, runtime::ProcessPlace(),
                      [](std::string_view) {});
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  CHECK(refused_signals == 0);
}

// Hidden: for the case above.
TEST_CASE("A child that sleeps", "[.]") {
  ::sleep(60);
}

}  // namespace
}  // namespace rewire::test
