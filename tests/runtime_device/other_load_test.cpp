// What other programs take of the CPUs, as the kernel counts it.
#include "runtime/device/other_load.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

using namespace runtime;

TEST_CASE("Busy is all but idle and waiting for disks, of the CPUs that are asked for") {
  const char* stat =
      "cpu  9 9 9 9 9 9 9 9 9 9\n"
      "cpu0 100 20 30 4000 500 6 7 8 50 60\n"
      "cpu1 1 0 0 1000 0 0 0 0 0 0\n"
      "cpu10 700 0 0 0 0 0 0 0 0 0\n"
      "intr 5\n";
  CHECK(busy_seconds(stat, {0}).value() == Approx(1.71));
  CHECK(busy_seconds(stat, {0, 1}).value() == Approx(1.72));
  CHECK_FALSE(busy_seconds(stat, {7}).has_value());
  CHECK_FALSE(busy_seconds("", {0}).has_value());
}

TEST_CASE("Another program's work is load, and where the kernel tells nothing there is no number") {
  const pid_t child = ::fork();
  if (child == 0) {
    std::atomic<int> turns = 0;
    for (;;) ++turns;
  }
  const OtherLoad load;
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const std::optional<double> cpus = load.cpus();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  REQUIRE(cpus.has_value());
  CHECK(*cpus > 0.2);
  const TemporaryFolder empty;
  CHECK_FALSE(OtherLoad(empty.file("")).cpus().has_value());
}

}  // namespace
}  // namespace rewire::test
