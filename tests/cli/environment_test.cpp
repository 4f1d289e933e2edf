// What of the environment decides the bits of a run stands in its choices.json, and a resume elsewhere says
// so.
#include <nlohmann/json.hpp>

#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

const Words kEnvironmentRun =
    kModel + Words{"--set", "data.format=synthetic", "--set", "data.count=16", "--set",       "train.batch=8",
                   "--set", "train.epochs=1",        "--set", "eval.batch=16", "--log-level", "warning"};

TEST_CASE("The instructions that oneDNN may use are recorded, and another resume's are told of") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  const std::vector<std::string> limited = {"ONEDNN_MAX_CPU_ISA=AVX2", "OMP_NUM_THREADS=3"};
  RunningCommand first(Words{"train"} + kEnvironmentRun + Words{"--out", run}, limited);
  CHECK(first.wait().code == 0);
  const auto choices = nlohmann::json::parse(read_text(run + "/choices.json"));
  CHECK(choices.at("environment") == nlohmann::json{{"ONEDNN_MAX_CPU_ISA", "AVX2"}});

  const Words resumed = {"train", "--resume", run, "--log-level", "warning", "--set"};
  RunningCommand same(resumed + Words{"train.epochs=2"}, limited);
  CHECK(same.wait().err == "");
  RunningCommand other(resumed + Words{"train.epochs=3"});
  CHECK(other.wait().err == "rewire: warning: " + run +
                                "/choices.json records a different engine, target, library or environment: "
                                "the run continues, but not to the same bits\n");
  const auto later = nlohmann::json::parse(read_text(run + "/choices.json")).at("later");
  REQUIRE(later.size() == 1);
  CHECK_FALSE(later[0].contains("environment"));
}

TEST_CASE("A run without such variables records none, and their bytes are made fit for JSON") {
  const TemporaryFolder folder;
  RunningCommand plain(Words{"train"} + kEnvironmentRun + Words{"--out", folder.file("plain")},
                       {"ONEDNN_VERBOSE=0"});
  CHECK(plain.wait().code == 0);
  CHECK_FALSE(nlohmann::json::parse(read_text(folder.file("plain/choices.json"))).contains("environment"));
  RunningCommand odd(Words{"train"} + kEnvironmentRun + Words{"--out", folder.file("odd")},
                     {"OPENBLAS_CORETYPE=\xff\nx"});
  CHECK(odd.wait().code == 0);
  CHECK(nlohmann::json::parse(read_text(folder.file("odd/choices.json")))
            .at("environment")
            .at("OPENBLAS_CORETYPE") == "\\xff\\x0ax");
}

}  // namespace
}  // namespace rewire::test
