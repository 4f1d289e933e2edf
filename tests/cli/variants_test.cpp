// rewire bench --variants and --tune: variants of one network beside each other, on the CPU and on the fake GPU.
#include <nlohmann/json.hpp>

#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

constexpr const char* kVariants = R"([[variant]]
name = "first"

[[variant]]
name = "the same"

[[variant]]
name = "cut"
tune = ["group_ops=2", "parts=1"]

[[variant]]
name = "rate"
set = ["optimizer.lr=0.5"]

[[variant]]
name = "gain"
plugin = ["GAIN"]
)";

Words bench(const std::string& file, const Words& more = {}) {
  return Words{"bench"} + kModel +
         Words{"--quiet", "--batch", "3", "--steps", "2", "--no-autotune", "--variants", file} + more;
}

std::string variants_in(const Workplace& work, const std::string& text) {
  write_text(work.file("variants.toml"), text);
  return work.file("variants.toml");
}

void check_variants(const Json& variants) {
  REQUIRE(variants.size() == 5);
  const Json &first = variants[0], &same = variants[1], &cut = variants[2];
  for (const Json& variant : variants) {
    CAPTURE(variant.at("name").get<std::string>());
    CHECK(variant.at("step_ms") > 0);
    CHECK(variant.at("ratio").get<double>() ==
          Approx(variant.at("step_ms").get<double>() / first.at("step_ms").get<double>()));
    CHECK(variant.at("same_bits") == (&variant == &first || &variant == &same));
    double bytes = 0;
    for (const Json& row : variant.at("profile")) bytes += row.at("bytes").get<double>();
    CHECK(variant.at("moved_gb").get<double>() == Approx(bytes * 1e-9));
  }
  CHECK(same.at("moved_gb") == first.at("moved_gb"));
  CHECK(same.at("memory_mb") == first.at("memory_mb"));
  CHECK(cut.at("tune") == Json{"group_ops=2", "parts=1"});
  CHECK(cut.at("kernels").get<int>() > first.at("kernels").get<int>());
  CHECK(cut.at("moved_gb").get<double>() > first.at("moved_gb").get<double>());
  CHECK(cut.at("choices")[0] == Json{{"key", "tune parts"}, {"taken", "1"}, {"by", "request"}});
}

TEST_CASE("bench --variants compares times, what is moved, memory and bits with the first variant") {
  const Workplace work;
  const std::string file = variants_in(work, replaced(kVariants, "GAIN", plugin_file("gain")));
  const Outcome outcome = rewire_command(bench(file, {"--json", "--profile", "--trust"}));
  CHECK(outcome.err.empty());
  REQUIRE(outcome.code == 0);
  check_variants(Json::parse(outcome.out).at("variants"));

  const Outcome table = rewire_command(bench(file, {"--trust"}));
  CHECK(table.code == 0);
  CHECK_THAT(table.out,
             REWIRE_CATCH_CONTAINS("variant     step ms    ratio        GB  memory MB  same bits\n"));
  CHECK_THAT(table.out, REWIRE_CATCH_CONTAINS("\nthe same ") && REWIRE_CATCH_CONTAINS("  yes\n") &&
                            REWIRE_CATCH_CONTAINS("  no\n"));
}

TEST_CASE("bench --variants does the same on a GPU") {
  const Workplace work;
  const std::string file = variants_in(work, replaced(kVariants, "GAIN", plugin_file("gain")));
  const Outcome outcome =
      on_fake(bench(file, {"--json", "--profile", "--resident", "--trust", "--device", "cuda"}));
  CHECK(without_progress(outcome.err).empty());
  REQUIRE(outcome.code == 0);
  Json variants = Json::parse(outcome.out).at("variants");
  for (Json& variant : variants) variant["step_ms"] = variant.at("resident_step_ms");  // what the ratio is of
  check_variants(variants);
}

TEST_CASE("a file of variants that is wrong is one line and exit code 2") {
  const Workplace work;
  const auto refused = [&](const std::string& text, const std::string& words, const Words& more = {}) {
    const std::string file = variants_in(work, text);
    check_refusal(rewire_command(bench(file, more)),
                  words.starts_with("FILE") ? file + words.substr(4) : words);
  };
  const std::string two = "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n";
  refused("", "FILE: 0 variants: it takes from 2 to 64, each a [[variant]]");
  refused("[variant]\nname = \"a\"\n", "FILE:1: variant is a list of sections: write [[variant]]");
  refused("[[variants]]\n", "FILE:1: unknown key variants (did you mean 'variant'?)");
  refused(two + "tuen = []\n", "FILE:5: unknown key tuen (did you mean 'tune'?)");
  refused(two + "set = \"x=1\"\n", "FILE:5: set takes a list of strings, not the string 'x=1'");
  refused(two + "set = [1]\n", "FILE:5: set takes strings, not the integer 1");
  refused(two + two, "FILE:5: two variants have the name 'a'");
  refused("[[variant]]\nset = []\n", "FILE:1: a variant needs a name: add name = \"…\"");
  refused(two + "tune = [\"parts=0\"]\n",
          "FILE: variant 'b': --tune parts=0: parts takes a whole number from 1 to 65536");
  refused(two + "set = [\"train.accumulate=2\"]\n",
          "FILE: variant 'b' has a batch of 6 images, the first of 3: give all the same");
  refused(two, "bench --variants: --profile needs --json", {"--profile"});
  check_refusal(rewire_command({"bench", "--pipe", "--variants", "f.toml", "--quiet"}),
                "bench --pipe: --variants works only without --pipe: drop one");
  refused(two, "bench --variants: --kernels works only without it: use --profile", {"--kernels"});
}

TEST_CASE("--tune changes how a program is cut, and a run given its choices records it") {
  const auto kernels = [](const Words& more) {
    const Outcome outcome =
        rewire_command(Words{"dump"} + kModel + Words{"--stage", "fused", "--json"} + more);
    REQUIRE(outcome.code == 0);
    return Json::parse(outcome.out).at("launches").size();
  };
  const std::size_t usual = kernels({});
  CHECK(kernels({"--tune", "group_ops=2"}) > usual);
  CHECK(kernels({"--tune", "group_ops=2", "--tune", "group_ops=600"}) == usual);  // the last counts
  CHECK(kernels({"--arch", "sm_90", "--tune", "group_ops=2"}) > kernels({"--arch", "sm_90"}));

  const Workplace work;
  write_text(work.file("choices.json"), R"({"choices": [{"key": "tune group_ops", "taken": "2"}]})");
  CHECK(kernels({"--choices", work.file("choices.json")}) == kernels({"--tune", "group_ops=2"}));
  CHECK(kernels({"--choices", work.file("choices.json"), "--tune", "group_ops=600"}) == usual);
  const Outcome trained = rewire_command(
      Words{"train"} + kModel +
      Words{"--set", "data.format=synthetic", "--set", "data.count=8", "--set", "train.batch=4", "--set",
            "train.epochs=1", "--quiet", "--choices", work.file("choices.json"), "--out", work.file("run")});
  CHECK(trained.code == 0);
  const Json recorded = Json::parse(read_text(work.file("run") + "/choices.json")).at("choices");
  CHECK(recorded.at(0).at("key") == "tune group_ops");
  CHECK(recorded.at(0).at("taken") == "2");
}

}  // namespace
}  // namespace rewire::test
