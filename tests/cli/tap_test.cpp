// rewire run --tap: values from the middle of a network, as files.
#include <filesystem>

#include "runtime/io/npy.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

TEST_CASE("run --tap writes what stands behind joins") {
  const Workplace work;
  const Words deeper = kModel + Words{"--set", "model.depth=2"};
  REQUIRE(work.init(deeper).code == 0);
  const auto tapped = [&](const Words& more) { return work.run(deeper + more).err; };
  CHECK(tapped({"--tap", "blocks.*.mlp", "--tap", "blocks.0.attn=" + work.file("first.npy")}).empty());
  const std::string files[] = {work.file("first.npy"), work.file("out.blocks.0.mlp.npy"),
                               work.file("out.blocks.1.mlp.npy")};
  for (const std::string& file : files)
    CHECK(runtime::read_npy(file).type() == ir::TensorType{ir::DType::f32, {kBatch, 5, 8}});
  const std::vector<float> after_attn = floats_of(files[0]), after_mlp = floats_of(files[1]),
                           after_last = floats_of(files[2]), logits = floats_of(work.file("out.npy"));
  CHECK_FALSE(fs::exists(work.file("out.blocks.1.attn.npy")));

  // Without the last block's branches what stands behind them is what stood before.
  const std::string off = plugin_file("gain") + ":factor=0,layers=1";
  const auto other = [&](const std::string& plugin, const std::string& tap) {
    const Outcome outcome = work.run(deeper + Words{"--plugin", plugin, "--other-strategy", "--tap", tap});
    CHECK(outcome.code == 0);
  };
  other(off, "*");
  CHECK(floats_of(work.file("out.blocks.1.mlp.npy")) == after_mlp);
  CHECK(floats_of(work.file("out.blocks.1.attn.npy")) == after_mlp);
  CHECK(floats_of(work.file("out.blocks.0.attn.npy")) == after_attn);
  // And the branch itself is the difference across the join.
  other(plugin_file("gain") + ":factor=2,layers=0,sites=mlp", "blocks.0.mlp");
  const std::vector<float> twice = floats_of(work.file("out.blocks.0.mlp.npy"));
  for (std::size_t i = 0; i < twice.size(); ++i)
    CHECK(twice[i] - after_attn[i] == Approx(2 * (after_mlp[i] - after_attn[i])).margin(1e-5));
  // Both engines have them, and what is tapped does not change the logits.
  CHECK(tapped({"--engine", "evaluator", "--tap", "blocks.1.mlp"}).empty());
  const std::vector<float> evaluated = floats_of(work.file("out.blocks.1.mlp.npy"));
  for (std::size_t i = 0; i < evaluated.size(); ++i)
    CHECK(evaluated[i] == Approx(after_last[i]).margin(1e-4));
  CHECK(tapped({}).empty());
  const std::vector<float> untapped = floats_of(work.file("out.npy"));
  for (std::size_t i = 0; i < logits.size(); ++i) CHECK(untapped[i] == Approx(logits[i]).margin(1e-5));
}

TEST_CASE("run --tap refuses what no join matches, and files that two values would go to") {
  const Workplace work;
  const auto refusal = [&](const Words& more) {
    const Outcome outcome = work.run(kModel + more);
    CHECK(outcome.code == 2);
    return outcome.err;
  };
  const std::size_t before = work.entries();
  CHECK(refusal({"--tap", "blocks.0.atn"}) ==
        "rewire: --tap blocks.0.atn: the network has no join 'blocks.0.atn' (did you mean 'blocks.0.attn'?); "
        "its joins are blocks.0.attn to blocks.0.mlp\n");
  CHECK(refusal({"--tap", "*=" + work.file("t.npy")}) ==
        "rewire: --tap *=" + work.file("t.npy") +
            ": 2 joins match, but a file holds one: drop =" + work.file("t.npy") + "\n");
  CHECK_THAT(refusal({"--tap", "blocks.0.mlp="}), REWIRE_CATCH_CONTAINS("the file name is missing"));
  CHECK(refusal({"--tap", "blocks.0.mlp=" + work.file("./out.npy")}) ==
        "rewire: --tap blocks.0.mlp: " + work.file("./out.npy") +
            " is also the file of --output: choose another\n");
  CHECK_THAT(refusal({"--tap", "blocks.0.mlp=" + work.file("x.npy")}),
             REWIRE_CATCH_CONTAINS("--tap " + work.file("x.npy") + " is also an input"));
  CHECK(work.entries() == before);
}

}  // namespace
}  // namespace rewire::test
