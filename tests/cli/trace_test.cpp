// rewire trace, on the faults that docs/guide/trace.md shows: each is found by one command.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/io/npy.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

const Words kDeeper = kModel + Words{"--set", "model.depth=2"};

Words planted(const std::string& fault) {
  return {"--plugin", plugin_file("planted") + ":fault=" + fault + ",at=2"};
}

Outcome trace(const Words& more) {
  return rewire_command(Words{"trace"} + kDeeper + more);
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  const std::size_t begin = text.rfind('\n', end) + 1;
  return text.substr(begin, end - begin + 1);
}

TEST_CASE("trace names the op that makes a NaN") {
  const Outcome outcome = trace(planted("nan"));
  CHECK(outcome.code == 0);
  CHECK(last_line(outcome.out) ==
        "the first non-finite tensor is the result of log at blocks.1.attn.planted, f32[2,5,8]");
  const Json object = Json::parse(trace(planted("nan") + Words{"--json"}).out);
  CHECK_THAT(object["first_non_finite"].get<std::string>(), REWIRE_CATCH_CONTAINS("log at blocks.1.attn"));
  CHECK(object["first_difference"].is_null());
  // Where both have it, it is none, and what is finite beside it is held to what rounding costs.
  for (const Words& precision : {Words{}, Words{"--set", "train.dtype=bf16"}}) {
    const Outcome against = trace(planted("nan") + precision + Words{"--against", "evaluator"});
    CHECK(against.code == 0);
  }
}

TEST_CASE("trace finds a wrong sign beside the values of a network without it") {
  const TemporaryFolder folder;
  const std::string values = folder.file("values");
  CHECK(trace(planted("none") + Words{"--output", values}).code == 0);
  CHECK(trace(planted("none") + Words{"--expect", values, "--tolerance", "0"}).code == 0);
  const Outcome outcome = trace(planted("sign") + Words{"--expect", values});
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS("the first tensor that differs is blocks.1.attn (residual)"));
  CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS("its difference is 2 x blocks.1.attn.planted"));
  const Json object = Json::parse(trace(planted("sign") + Words{"--expect", values, "--json"}).out);
  CHECK(object["first_difference"] == "blocks.1.attn");
  for (const Json& tensor : object["tensors"]) {
    if (tensor["name"] == "blocks.0.mlp") CHECK(tensor["error"] == 0);
  }
}

TEST_CASE("trace finds what overflows in bf16 alone") {
  const Outcome wide = trace(planted("overflow"));
  CHECK(wide.code == 0);
  CHECK(wide.out.find("the first non-finite") == std::string::npos);
  const Outcome narrow = trace(planted("overflow") + Words{"--set", "train.dtype=bf16"});
  CHECK(last_line(narrow.out) ==
        "the first non-finite tensor is the result of cast at blocks.1.attn.planted, bf16[2,5,8]");
}

TEST_CASE("trace holds the compiled network to the evaluator, and writes what it is asked for") {
  const TemporaryFolder folder;
  const Outcome outcome = trace({"--backward", "--against", "evaluator", "--tensors", "blocks.*.attn",
                                 "--tensors", "blocks.0.attn:attention", "--output", folder.file("out")});
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  CHECK(last_line(outcome.out) == "no difference in 7 of 7 tensors");
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder.file("out"))) ++files;
  CHECK(files == 7);
  CHECK(runtime::read_npy(folder.file("out/blocks.1.attn.grad.npy")).type() ==
        ir::TensorType{ir::DType::f32, {2, 5, 8}});
  CHECK(runtime::read_npy(folder.file("out/blocks.0.attn:attention.npy")).type().rank() == 4);
  const auto text = [&] { return trace({"--tensors", "*:*", "--tensors", "*.weight", "--backward"}).out; };
  CHECK(text() == text());
}

TEST_CASE("trace takes a batch from files, and a run with its weights and its data") {
  const Workplace work;
  REQUIRE(work.init(kDeeper).code == 0);
  const Words batch = {"--input",          work.file("x.npy"), "--labels",
                       work.file("y.npy"), "--weights",        work.file("w.safetensors")};
  const Json given = Json::parse(trace(batch + Words{"--json", "--tensors", "head"}).out);
  CHECK(given["tensors"][0]["type"] == "f32[3,10]");

  const std::string run = work.file("run");
  const Outcome trained =
      rewire_command(Words{"train"} + kDeeper +
                     Words{"--set", "data.format=synthetic", "--set", "data.count=64", "--set",
                           "train.batch=16", "--set", "train.epochs=1", "--out", run});
  REQUIRE(trained.code == 0);
  const Json last = Json::parse(
      rewire_command({"trace", run, "--data", "--batch", "8", "--json", "--tensors", "head*"}).out);
  CHECK(last["tensors"][2]["type"] == "f32[8,10]");
  // What a run is made of is not written over, whoever names it, and nothing is added to it.
  const std::string weights = read_text(run + "/weights.safetensors");
  for (const Words& command : {Words{"explore", run + "/recipe.toml"}, Words{"diff", run + "/recipe.toml"}}) {
    const Outcome refused = rewire_command(command + Words{"--output", run + "/weights.safetensors"});
    CHECK(refused.code == 2);
    CHECK_THAT(refused.err, REWIRE_CATCH_CONTAINS("is a file of the run"));
  }
  CHECK(read_text(run + "/weights.safetensors") == weights);
  for (const Words& command :
       {Words{"trace", run}, Words{"repro", run, "--failure"}, Words{"repro", run, "--failure", "--json"}}) {
    const Outcome refused = rewire_command(command + Words{"--output", run + "/new"});
    CHECK(refused.code == 2);
    CHECK_THAT(refused.err, REWIRE_CATCH_CONTAINS("or is inside it"));
  }
  const Json fresh = Json::parse(trace({"--json", "--tensors", "head*"}).out);
  CHECK(fresh["tensors"][0]["mean"] != last["tensors"][0]["mean"]);
}

TEST_CASE("trace names what a batch norm gives, not its statistics") {
  const Json object = Json::parse(
      rewire_command({"trace", "resnetv2_18", "--tensors", "*norm*", "--json", "--set", "model.image=32"})
          .out);
  std::size_t norms = 0;
  for (const Json& tensor : object["tensors"]) {
    if (tensor["op"] != "batch_norm") continue;
    ++norms;
    CHECK_THAT(tensor["type"].get<std::string>(), REWIRE_CATCH_CONTAINS("f32[2,"));
  }
  CHECK(norms > 4);
}

TEST_CASE("trace refuses what it cannot do") {
  const auto refusal = [&](const Words& more) {
    const Outcome outcome = trace(more);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    return outcome.err;
  };
  CHECK_THAT(refusal({"--tensors", "blocks.0.atn"}), REWIRE_CATCH_CONTAINS("did you mean 'blocks.0.attn'?"));
  CHECK_THAT(refusal({"--data", "--input", "x.npy"}),
             REWIRE_CATCH_CONTAINS("--data and --input cannot be combined"));
  CHECK_THAT(refusal({"--against", "jit", "--expect", "x"}), REWIRE_CATCH_CONTAINS("drop one"));
  CHECK_THAT(refusal({"--checkpoint", "last"}), REWIRE_CATCH_CONTAINS("is not a run"));
  CHECK_THAT(refusal({"--expect", "/nowhere"}), REWIRE_CATCH_CONTAINS("there is no such folder"));
}

}  // namespace
}  // namespace rewire::test
