// Memory and threads that run out: one line, exit code 2, and nothing left of a run that did not begin.
#include <sys/resource.h>

#include <filesystem>
#include <vector>

#include "tests/cli/fixture.h"
#include "tests/cli/started.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

constexpr rlim_t kMegabyte = rlim_t{1} << 20;

struct Limit {
  decltype(RLIMIT_AS) kind;
  rlim_t bytes;
};

Outcome limited(const Words& arguments, Limit limit, const Words& environment = {}) {
  return StartedCommand(
             arguments,
             [limit] {
               const rlimit no_core{0, 0}, most{limit.bytes, limit.bytes};
               ::setrlimit(RLIMIT_CORE, &no_core);
               ::setrlimit(limit.kind, &most);
             },
             environment)
      .wait();
}

/// What the program takes before it does anything. Below, its libraries fail before its first line runs.
rlim_t least(decltype(RLIMIT_AS) kind) {
  rlim_t bytes = 0;
  for (int in_a_row = 0; in_a_row < 4; bytes += 2 * kMegabyte) {
    in_a_row = limited({"--version"}, {kind, bytes}).code == 0 ? in_a_row + 1 : 0;
    if (bytes > 4096 * kMegabyte) throw std::runtime_error("the program does not start with 4 GB");
  }
  return bytes;
}

const Words kSmall = {"vit_tiny_28",   "--set", "model.depth=1",   "--set",  "data.format=synthetic", "--set",
                      "data.count=64", "--set", "train.batch=8",   "--set",  "train.epochs=1",        "--set",
                      "eval.batch=32", "--set", "train.threads=2", "--quiet"};

/// One line that says what to do.
void check_says_what_to_do(const Outcome& outcome) {
  CAPTURE(outcome.err);
  CHECK(outcome.code == 2);
  CHECK(std::ranges::count(outcome.err, '\n') == 1);
  const bool names_it = outcome.err.starts_with("rewire: out of memory: try ") ||
                        outcome.err.starts_with("rewire: cannot start thread ");
  CHECK(names_it);
}

TEST_CASE("However little memory there is, a training ends in one line that says what to do, or ends well") {
  const TemporaryFolder folder, warm;
  // Where products are timed, another run may make other choices, and come to other bits.
  const Words target = {"REWIRE_CPU=x86-64-v3"};
  REQUIRE(RunningCommand(Words{"train"} + kSmall + Words{"--out", folder.file("made")}, target).wait().code ==
          0);
  for (const auto kind : {RLIMIT_AS, RLIMIT_DATA}) {
    const rlim_t begin = least(kind);
    int refused = 0, trained = 0;
    for (rlim_t more = 0; trained < 3 && more < 400; more += 11) {
      for (const bool cold : {false, true}) {
        CAPTURE(static_cast<int>(kind), begin / kMegabyte, more, cold);
        const TemporaryFolder cache;
        const std::string run = folder.file("run");
        const Words environment =
            target + (cold ? Words{"XDG_CACHE_HOME=" + cache.path().string()} : Words{});
        const Outcome outcome = limited(Words{"train"} + kSmall + Words{"--out", run},
                                        {kind, begin + more * kMegabyte}, environment);
        if (outcome.code == 0) {
          ++trained;
          CHECK(read_text(run + "/weights.safetensors") ==
                read_text(folder.file("made") + "/weights.safetensors"));
        } else {
          ++refused;
          check_says_what_to_do(outcome);
          CHECK_FALSE(fs::exists(run));
        }
        fs::remove_all(run);
      }
    }
    CHECK(refused > 5);
    CHECK(trained >= 3);
  }
}

TEST_CASE("Where memory is too little, each command names what takes less") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  REQUIRE(rewire_command(Words{"train"} + kSmall + Words{"--out", run}).code == 0);
  struct Case {
    Words arguments;
    std::string err;
  };
  const std::vector<Case> cases = {
      {{"eval", run, "--set", "eval.batch=4000", "--set", "data.count=4000"},
       "try a smaller batch (--set eval.batch=N)"},
      {Words{"train"} + kSmall +
           Words{"--out", folder.file("other"), "--set", "eval.batch=4000", "--set", "data.count=4000"},
       "try a smaller evaluation batch (--set eval.batch=N)"},
      {Words{"train"} + kSmall +
           Words{"--out", folder.file("other"), "--set", "train.batch=4000", "--set", "data.count=4000"},
       "try a smaller batch (--set train.batch=N, with train.accumulate=2 for the same step), "
       "train.recompute=block or a "
       "smaller model"},
      {{"bench", "vit_tiny_28", "--set", "model.depth=1", "--batch", "4000"}, "try a smaller --batch"},
      {{"bench", "vit_tiny_28", "--batch", "1000000"}, "try a smaller --batch"},
  };
  const rlim_t bytes = least(RLIMIT_AS) + 350 * kMegabyte;
  for (const auto& [arguments, err] : cases) {
    CAPTURE(err);
    const Outcome outcome = limited(arguments, {RLIMIT_AS, bytes});
    CHECK(outcome.code == 2);
    CHECK(outcome.err == "rewire: out of memory: " + err + "\n");
    CHECK_FALSE(fs::exists(folder.file("other")));
  }
}

TEST_CASE("Threads that cannot be started are named, with the key that asks for fewer") {
  const TemporaryFolder folder;
  const Limit limit{RLIMIT_AS, least(RLIMIT_AS) + 500 * kMegabyte};
  const Words train = Words{"train"} + kSmall + Words{"--out", folder.file("run")};
  const Outcome computing = limited(train + Words{"--set", "train.threads=1024"}, limit);
  CHECK(computing.code == 2);
  CHECK_THAT(computing.err, Catch::Matchers::StartsWith("rewire: cannot start thread ") &&
                                Catch::Matchers::EndsWith(
                                    " of 1024: Resource temporarily unavailable; lower train.threads\n"));
  const Outcome loading = limited(train + Words{"--set", "data.threads=256"}, limit);
  CHECK(loading.code == 2);
  CHECK_THAT(loading.err,
             Catch::Matchers::StartsWith("rewire: cannot start thread ") &&
                 Catch::Matchers::EndsWith(
                     " of 256 to load data: Resource temporarily unavailable; lower data.threads\n"));
  CHECK(folder.entries() == 0);
}

}  // namespace
}  // namespace rewire::test
