// [diagnose] from the command line: what a run writes is what `rewire analyze` measures of its checkpoints, and what
// plugins report and add stands in both.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

using nlohmann::json;

const Words kDiagnosed =
    Words{"train"} + kModel +
    Words{"--set", "data.format=synthetic", "--set", "data.count=40",      "--set",  "train.batch=8",
          "--set", "train.epochs=2",        "--set", "train.threads=1",    "--set",  "diagnose.every=5",
          "--set", "train.keep=9",          "--set", "diagnose.images=30", "--quiet"};

std::vector<json> lines_of_kind(const std::string& run, const std::string& kind) {
  std::vector<json> lines;
  std::ifstream file(run + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    json parsed = json::parse(line);
    if (parsed.at("kind") == kind) lines.push_back(std::move(parsed));
  }
  return lines;
}

TEST_CASE(
    "A checkpoint that is analyzed has the numbers of the run's own line, and all of them stand side by "
    "side") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  REQUIRE(rewire_command(kDiagnosed + Words{"--out", run}).code == 0);
  const std::vector<json> lines = lines_of_kind(run, "diagnose");
  REQUIRE(lines.size() == 3);
  const json report =
      json::parse(rewire_command({"analyze", run, "--images", "30", "--checkpoint", "all", "--json"}).out);
  const json& checkpoints = report.at("checkpoints");
  REQUIRE(checkpoints.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const json &line = lines.at(i + 1), &measured = checkpoints.at(i);
    CHECK(measured.at("step") == line.at("step"));
    CHECK(measured.at("images") == 30);
    std::size_t compared = 0;
    for (const char* list : {"joins", "blocks"}) {
      for (const json& place : measured.at(list)) {
        for (const auto& [quantity, value] : place.items()) {
          if (quantity == "name") continue;
          const std::string told = quantity == "orthogonal" ? "perpendicular" : quantity;
          const std::string name = "diagnose." + place.at("name").get<std::string>() + "." + told;
          CAPTURE(name);
          CHECK(line.at(name).get<double>() == Approx(value.get<double>()).epsilon(1e-6));
          ++compared;
        }
      }
    }
    CHECK(compared == 2 * 5 + 6);
    CHECK(line.at("diagnose.features.effective_rank").get<double>() ==
          Approx(measured.at("effective_rank").get<double>()).epsilon(1e-6));
  }
  const std::string first = checkpoints.at(0).at("name"), second = checkpoints.at(1).at("name");
  const Outcome table = rewire_command({"analyze", run, "--images", "30", "--checkpoint", "all"});
  CHECK(table.code == 0);
  CHECK_THAT(table.out, REWIRE_CATCH_CONTAINS(first + "  " + second) &&
                            REWIRE_CATCH_CONTAINS("\ncos(x, f)   blocks.0.attn ") &&
                            REWIRE_CATCH_CONTAINS("\neff. rank   blocks.0 ") &&
                            REWIRE_CATCH_CONTAINS("\n            features "));
  std::filesystem::remove_all(run + "/checkpoints");
  CHECK(rewire_command({"analyze", run, "--checkpoint", "all"}).err ==
        "rewire: analyze: " + run + " has no checkpoints\n");
}

TEST_CASE("What plugins report and the numbers that they add are diagnosed, in the epochs that they are on") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  const std::string hooks = plugin_file("hooks") + ":branch=true,hint=false,constraint=false,from_epoch=1";
  REQUIRE(rewire_command(kDiagnosed + Words{"--plugin", hooks, "--out", run}).code == 0);
  const std::vector<json> lines = lines_of_kind(run, "diagnose");
  REQUIRE(lines.size() == 3);
  const char* name = "report.blocks.0.mlp.hooks.gate";
  CHECK_FALSE(lines[1].contains(name));
  CHECK(lines[2].at(name).get<double>() == Approx(0.5).epsilon(0.1));
  // A line of training has the same number as it was in the steps before.
  CHECK(lines_of_kind(run, "train").back().at(name).get<double>() ==
        Approx(lines[2].at(name).get<double>()).epsilon(0.05));
  const json report = json::parse(rewire_command({"analyze", run, "--images", "30", "--json"}).out);
  CHECK(report.at("reports").at(name).get<double>() == Approx(lines[2].at(name).get<double>()).epsilon(1e-6));
  CHECK_THAT(rewire_command({"analyze", run}).out,
             REWIRE_CATCH_CONTAINS("\nreport ") && REWIRE_CATCH_CONTAINS(std::string("\n") + name + " "));
  CHECK_THAT(rewire_command({"analyze", run, "--checkpoint", "all"}).out,
             REWIRE_CATCH_CONTAINS("report") && REWIRE_CATCH_CONTAINS(std::string(name) + " "));
}

TEST_CASE("Diagnostics that cannot be had are refused in one line") {
  const auto refusal = [](const Words& more) {
    const Outcome outcome = rewire_command(kDiagnosed + more);
    CHECK(outcome.code == 2);
    return outcome.err;
  };
  CHECK(refusal({"--set", "diagnose.images=41"}) ==
        "rewire: diagnose.images=41: synthetic data has 40 test images: set at most that many\n");
  CHECK_THAT(refusal({"--set", "diagnose.what=streems"}), REWIRE_CATCH_CONTAINS("(did you mean 'streams'?)"));
  CHECK_THAT(refusal({"--set", "diagnose.every=-5"}),
             REWIRE_CATCH_CONTAINS("diagnose.every=-5 is out of range"));
  CHECK_THAT(refusal({"--set", "diagnose.what=rank+parameters+streems"}),
             REWIRE_CATCH_CONTAINS("unknown diagnostic 'streems'"));
  CHECK(refusal({"--set", "diagnose.what=parameters"}) ==
        "rewire: diagnose.what=parameters: the network has none of it: add other quantities\n");
}

}  // namespace
}  // namespace rewire::test
