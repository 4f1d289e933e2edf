// Every command that reads weights says what they are of where that is another network than the one they go into: the
// table of docs/guide/train.md, "What weights are of".
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/io/safetensors.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

const Words kEvaluated = {"--set", "data.format=synthetic", "--set", "data.count=32",
                          "--set", "eval.batch=32"};

struct Reader {
  std::string name;
  Words arguments;  // the file's name follows
  bool takes_set = false;
};

/// The commands of the table that take a file.
std::vector<Reader> readers(const Workplace& work) {
  const Words labelled = {"--input", work.file("x.npy"), "--labels", work.file("y.npy")};
  return {
      {"eval", Words{"eval"} + kModel + kEvaluated + Words{"--weights"}},
      {"run", Words{"run"} + kModel +
                  Words{"--input", work.file("x.npy"), "--output", work.file("o.npy"), "--weights"}},
      {"grad", Words{"grad"} + kModel + labelled + Words{"--output", work.file("g"), "--weights"}},
      {"step", Words{"step"} + kModel +
                   Words{"--input", work.file("xs.npy"), "--labels", work.file("ys.npy"), "--steps", "2",
                         "--output", work.file("s"), "--weights"}},
      {"trace", Words{"trace"} + kModel + labelled + Words{"--weights"}},
      {"features",
       Words{"features"} + kModel + kEvaluated + Words{"--output", work.file("f.npy"), "--weights"}},
      {"probe",
       Words{"probe"} + kModel + kEvaluated + Words{"--kind", "knn", "--neighbours", "3", "--weights"}},
      {"tokencut", Words{"tokencut"} + kModel + kEvaluated +
                       Words{"--images", "1", "--output", work.file("boxes"), "--weights"}},
      {"train",
       Words{"train"} + kModel + kEvaluated +
           Words{"--set", "train.batch=8", "--set", "train.epochs=1", "--out", work.file("run"), "--set"},
       true},
  };
}

Outcome read(const Workplace& work, const Reader& reader, const std::string& file, const Words& more = {}) {
  std::filesystem::remove_all(work.file("run"));
  const std::string path = work.file(file);
  return rewire_command(reader.arguments + Words{reader.takes_set ? "train.weights=" + path : path} + more);
}

TEST_CASE("What each command says of weights of this network, another strategy, other options, and no word") {
  const Workplace work;
  REQUIRE(work.init(kModel, "same").code == 0);
  REQUIRE(
      work.init(kModel + Words{"--set", "model.dropout=0.5", "--set", "seed=7", "--set", "train.dtype=bf16"},
                "dropout")
          .code == 0);
  REQUIRE(work.init(kModel + Words{"--plugin", plugin_file("gain") + ":factor=0.5"}, "strategy").code == 0);
  REQUIRE(work.init(kModel + Words{"--set", "model.heads=4"}, "options").code == 0);
  runtime::write_safetensors(work.file("plain"), runtime::read_safetensors(work.file("same")).tensors);
  for (const Reader& reader : readers(work)) {
    CAPTURE(reader.name);
    for (const char* silent : {"same", "dropout"}) {
      const Outcome same = read(work, reader, silent);
      CHECK(same.code == 0);
      CHECK(same.err.find(": it is from ") == std::string::npos);
      CHECK(same.err.find("which network it is from") == std::string::npos);
    }
    const Outcome other = read(work, reader, "strategy");
    check_refusal(other, work.file("strategy") +
                             ": it is from a network with gain, but this one has plain joins: the same "
                             "numbers would compute something else; use its strategy (--plugin), or confirm "
                             "with --other-strategy, or train.other_strategy=true for train.weights");
    const Outcome meant = read(work, reader, "strategy", {"--other-strategy"});
    CHECK(meant.code == 0);
    CHECK_THAT(meant.err,
               REWIRE_CATCH_CONTAINS(work.file("strategy") +
                                     ": it is from a network with gain, but this one has plain joins\n"));
    const Outcome options = read(work, reader, "options");
    CHECK(options.code == 0);
    CHECK_THAT(options.err, REWIRE_CATCH_CONTAINS(
                                work.file("options") +
                                ": it is from a vit_tiny_28 with other options: heads 4 there, 2 here\n"));
    const Outcome plain = read(work, reader, "plain");
    CHECK(plain.code == 0);
    CHECK_THAT(plain.err,
               REWIRE_CATCH_CONTAINS(work.file("plain") + ": it does not say which network it is from: "));
  }
}

TEST_CASE("A run's weights are not those of its network without its strategy, nor with other values of it") {
  const Workplace work;
  const std::string run = work.file("run"), gain = plugin_file("gain");
  REQUIRE(rewire_command(Words{"train"} + kModel + kEvaluated +
                         Words{"--set", "train.batch=8", "--set", "train.epochs=1", "--quiet", "--plugin",
                               gain + ":factor=0.5", "--out", run})
              .code == 0);
  for (const std::string command : {"eval", "analyze", "trace"}) {
    CAPTURE(command);
    CHECK(rewire_command({command, run}).code == 0);
    const Outcome plain = rewire_command({command, run, "--plugin", "none"});
    CHECK(plain.code == 2);
    CHECK_THAT(plain.err,
               REWIRE_CATCH_CONTAINS(": it is from a network with gain, but this one has plain joins: "));
    const Outcome values = rewire_command({command, run, "--plugin", gain + ":factor=0.25"});
    CHECK(values.code == 2);
    CHECK_THAT(values.err, REWIRE_CATCH_CONTAINS(
                               ": it is from a network with another gain: factor 0.5 there, 0.25 here: "));
    CHECK(rewire_command({command, run, "--plugin", "none", "--other-strategy"}).code == 0);
  }
  CHECK(rewire_command({"eval", run, "--weights", run + "/weights.safetensors", "--plugin", "none"}).code ==
        2);
}

TEST_CASE(
    "Equal weights are equal bytes, whatever process wrote them, and say which classes they tell apart") {
  const Workplace work;
  REQUIRE(work.init(kModel, "one").code == 0);
  REQUIRE(work.init(kModel + Words{"--set", "train.threads=1"}, "two").code == 0);
  CHECK(read_text(work.file("one")) == read_text(work.file("two")));
  const Json origin = Json::parse(runtime::read_safetensors(work.file("one")).metadata.at("rewire"));
  CHECK(origin.at("model") == "vit_tiny_28");
  CHECK(origin.at("options").at("dim") == "8");
  CHECK(origin.at("plugins").empty());
  CHECK(origin.at("forward").get<std::string>().size() == 64);
}

}  // namespace
}  // namespace rewire::test
