// rewire dump --summary: numbers that the other stages can be counted for.
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

using nlohmann::json;

/// The lines of the text that begin so.
std::int64_t lines_with(const std::string& text, const std::string& start) {
  std::istringstream lines(text);
  std::int64_t count = 0;
  for (std::string line; std::getline(lines, line);) count += line.starts_with(start);
  return count;
}

TEST_CASE("dump --summary counts what the stages show, and what plugins and joins add") {
  const Words dump = Words{"dump"} + kModel + Words{"--set", "model.depth=2", "--set", "train.batch=3"};
  const auto summary_of = [&](const Words& more) {
    const Outcome outcome = rewire_command(dump + Words{"--summary", "--json"} + more);
    REQUIRE(outcome.code == 0);
    return json::parse(outcome.out);
  };
  const Words gain = {"--plugin", plugin_file("gain") + ":factor=0.5,layers=1"};
  const json plain = summary_of({}), with = summary_of(gain);
  for (const auto& [words, summary] : {std::pair{Words{}, plain}, std::pair{gain, with}}) {
    const std::string fused = rewire_command(dump + words + Words{"--stage", "fused"}).out;
    CHECK(summary.at("kernels") == lines_with(fused, "  kernel ") + lines_with(fused, "    kernel "));
    CHECK(summary.at("calls") == lines_with(fused, "  gemm ") + lines_with(fused, "  call "));
    const std::string plan = rewire_command(dump + words + Words{"--stage", "plan"}).out;
    CHECK_THAT(plan, REWIRE_CATCH_CONTAINS(std::to_string(summary.at("arena_bytes").get<std::int64_t>())));
    CHECK(summary.at("distinct_kernels") <= summary.at("kernels"));
    CHECK(summary.at("bytes") > summary.at("state_bytes"));
    CHECK(summary.at("compile_s") > 0);
  }
  CHECK(plain.at("plugins").empty());
  CHECK(plain.at("joins").empty());
  REQUIRE(with.at("plugins").size() == 1);
  CHECK(with.at("plugins").at(0).at("name") == "gain");
  REQUIRE(with.at("joins").size() == 2);
  CHECK(with.at("joins").at(0).at("name") == "blocks.1.attn");
  CHECK(with.at("joins").at(1).at("name") == "blocks.1.mlp");
  for (const char* key : {"kernels", "calls", "bytes", "arena_bytes", "state_bytes"}) {
    CHECK(with.at("without_plugins").at(key) == plain.at(key));
    CHECK(with.at(key).get<std::int64_t>() - plain.at(key).get<std::int64_t>() ==
          with.at("plugins").at(0).at(key).get<std::int64_t>());
  }

  // A join's row is what the plugin adds that is told to take this join alone.
  const json alone = summary_of({"--plugin", plugin_file("gain") + ":factor=0.5,layers=1,sites=mlp"});
  REQUIRE(alone.at("joins").size() == 1);
  CHECK(alone.at("joins").at(0) == with.at("joins").at(1));
  for (const char* key : {"kernels", "distinct_kernels", "calls", "bytes", "arena_bytes", "state_bytes"})
    CHECK(alone.at("joins").at(0).at(key) == alone.at("plugins").at(0).at(key));
  // One that adds a weight to each join adds its moments too, and what updates them.
  const json weights = summary_of({"--plugin", plugin_file("careless") + ":fault=axis"});
  CHECK(weights.at("plugins").at(0).at("state_bytes") == 4 * 3 * 8 * 4);
  CHECK(weights.at("joins").at(0).at("state_bytes") == 3 * 8 * 4);

  const Outcome text = rewire_command(dump + gain + Words{"--summary"});
  CHECK(text.code == 0);
  CHECK(text.err.empty());
  CHECK_THAT(text.out, REWIRE_CATCH_CONTAINS("\nstep, batch 3 ") &&
                           REWIRE_CATCH_CONTAINS("\nwithout plugins ") && REWIRE_CATCH_CONTAINS("\ngain ") &&
                           REWIRE_CATCH_CONTAINS("\nblocks.1.mlp ") &&
                           REWIRE_CATCH_CONTAINS("\ncompiled in "));
  const Outcome gpu = rewire_command(dump + Words{"--summary", "--arch", "sm_90"});
  CHECK(gpu.code == 0);
  CHECK_THAT(gpu.out, !REWIRE_CATCH_CONTAINS("compiled"));
  CHECK(rewire_command(dump + Words{"--summary", "--stage", "fused"}).err ==
        "rewire: dump: --summary is about the whole step: drop --stage and its options\n");
  CHECK(rewire_command(dump + Words{"--json", "--stage", "fused", "--kernel", "k"}).err ==
        "rewire: dump: --json prints all kernels of --stage fused: drop --kernel\n");
}

}  // namespace
}  // namespace rewire::test
