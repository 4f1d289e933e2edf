// Work in a child process: what it sends arrives, and however it ends, this process goes on and knows how.
#include "runtime/plugin/isolated.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "ir/error.h"
#include "plugins/sdk/rewire_plugin.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::test {
namespace {

using runtime::Fields;
using runtime::Send;

constexpr runtime::IsolationLimits kLimits = {std::chrono::seconds(60), 60, std::int64_t{1} << 30, false};
constexpr runtime::IsolationLimits kImpatient = {std::chrono::milliseconds(300), 60, std::int64_t{1} << 30,
                                                 false};

struct Seen {
  std::vector<Fields> messages;
  std::string fault = "none";
};

Seen run(const runtime::IsolationLimits& limits, const std::function<void(const Send&)>& work) {
  Seen seen;
  const auto fault =
      runtime::run_isolated(limits, work, [&](const Fields& fields) { seen.messages.push_back(fields); });
  if (fault) seen.fault = *fault;
  return seen;
}

TEST_CASE("What a child sends arrives whole, in order, whatever it holds") {
  const std::string large(300000, 'x'), zero("a\0b", 3);
  const Seen seen = run(kLimits, [&](const Send& send) {
    send({});
    send({"", zero, "line\n"});
    send({large, large});
  });
  CHECK(seen.fault == "none");
  REQUIRE(seen.messages.size() == 3);
  CHECK(seen.messages[0].empty());
  CHECK(seen.messages[1] == Fields{"", zero, "line\n"});
  const bool whole = seen.messages[2] == Fields{large, large};
  CHECK(whole);
}

TEST_CASE("What the work throws is thrown here") {
  CHECK(message_of<UserError>([] { run(kLimits, [](const Send&) { user_error("a"); }); }) == "a");
  CHECK(message_of<RuntimeFailure>([] { run(kLimits, [](const Send&) { throw RuntimeFailure("b"); }); }) ==
        "b");
  CHECK(message_of<InternalError>([] { run(kLimits, [](const Send&) { internal_error("c"); }); }) == "c");
}

TEST_CASE("However a child ends, it is told, and what was sent before is there") {
  const auto ends = [](const std::function<void()>& end) {
    const Seen seen = run(kLimits, [&](const Send& send) {
      send({"before"});
      end();
    });
    CHECK(seen.messages == std::vector<Fields>{{"before"}});
    return seen.fault;
  };
  CHECK(ends([] { ::raise(SIGSEGV); }) == "it crashed (SIGSEGV)");
  CHECK(ends([] { std::abort(); }) == "it crashed (SIGABRT)");
  CHECK(ends([] { ::_exit(0); }) == "it ended the process with code 0");
  CHECK(ends([] { ::_exit(3); }) == "it ended the process with code 3");
  CHECK(ends([] { ::kill(0, SIGKILL); }) == "it was killed (SIGKILL)");
}

TEST_CASE("A child that is silent for too long is ended, with what it has started") {
  const auto before = std::chrono::steady_clock::now();
  const auto hangs = [](const std::function<void()>& hang) {
    return run(kImpatient, [&](const Send&) { hang(); }).fault;
  };
  const std::string fault = "it had not returned after 0.3 s";
  CHECK(hangs([] { ::pause(); }) == fault);
  CHECK(hangs([] {
          for (int i = 3; i < 100; ++i) ::close(i);  // the pipe too
          ::pause();
        }) == fault);
  CHECK(hangs([] {
          if (::fork() == 0) ::pause();  // it holds the pipe
          ::raise(SIGSEGV);
        }) == "it crashed (SIGSEGV)");
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(30));
}

TEST_CASE("A child's processor time and memory are limited") {
  if (REWIRE_SANITIZER != REWIRE_SANITIZER_NONE) return;
  constexpr runtime::IsolationLimits kSecond = {std::chrono::seconds(60), 1, std::int64_t{1} << 28, false};
  volatile bool forever = true;
  const auto spin = [&](const Send&) {
    while (forever) {
    }
  };
  CHECK(run(kSecond, spin).fault == "it took more than 1 s of processor time");
  CHECK(message_of<UserError>([&] {
          run(kSecond, [](const Send&) {
            std::vector<char> much(std::size_t{1} << 29);
            much[0] = 1;
          });
        }) == "out of memory");
}

}  // namespace
}  // namespace rewire::test
