// rewire train on an objective with a teacher, views of two sizes and neighbours at each evaluation.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/io/files.h"
#include "runtime/io/safetensors.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

const char* const kDistilled = R"(
[model]
name = "dino"
image = 12
channels = 1
patch = 4
dim = 12
depth = 2
heads = 2
hidden_dim = 8
bottleneck_dim = 6
out_dim = 10
drop_path = 0.2
[data]
format = "synthetic"
count = 48
threads = 2
[transforms]
resize = "bilinear"
scale = [0.5, 1.0]
[[view]]
name = "global1"
[[view]]
name = "global2"
horizontal_flip = true
[[view]]
name = "local"
count = 2
size = 8
[objective]
local_crops = 2
local_size = 8
[train]
batch = 8
epochs = 2
accumulate = 1
ema = 0.9
ema_end = 1
clip = "each"
clip_norm = 1
best_metric = "ema_knn_top1"
[eval]
batch = 16
knn = 3
knn_images = 40
)";

std::string distilled_recipe(const TemporaryFolder& folder) {
  const std::string path = folder.file("distilled.toml");
  runtime::write_file_atomically(path, std::string(kDistilled));
  return path;
}

Json last_evaluation(const std::string& run) {
  std::ifstream file(run + "/metrics.jsonl");
  Json found;
  for (std::string line; std::getline(file, line);) {
    if (Json one = Json::parse(line); one.at("kind") == "eval") found = std::move(one);
  }
  return found;
}

TEST_CASE("A student and its teacher train, are evaluated by neighbours, and resume to the same bits") {
  const TemporaryFolder folder;
  const std::string recipe = distilled_recipe(folder), whole = folder.file("whole"),
                    parts = folder.file("parts");
  const char* accumulate = GENERATE("train.accumulate=1", "train.accumulate=2");
  CAPTURE(accumulate);
  const Words common = {"--quiet", "--set", accumulate};
  REQUIRE(rewire_command(Words{"train", recipe, "--out", whole} + common).err.empty());
  REQUIRE(
      rewire_command(Words{"train", recipe, "--out", parts, "--set", "train.max_steps=4"} + common).code ==
      0);
  CHECK(rewire_command({"train", "--resume", parts, "--quiet", "--set", "train.max_steps=0", "--set",
                        "train.threads=1", "--set", "data.threads=1"})
            .err.empty());
  for (const char* file : {"/weights.safetensors", "/weights_ema.safetensors"})
    CHECK(runtime::read_file(whole + file) == runtime::read_file(parts + file));
  const Json evaluation = last_evaluation(whole);
  for (const char* name :
       {"loss", "entropy", "knn_top1", "knn_top5", "ema_loss", "ema_knn_top1", "ema_knn_top5"}) {
    CAPTURE(name);
    CHECK(evaluation.at(name) == last_evaluation(parts).at(name));
  }
  const runtime::TensorMap weights = runtime::read_safetensors(whole + "/weights.safetensors").tensors;
  CHECK(weights.contains("objective.center"));
  CHECK(std::ranges::none_of(weights, [](const auto& w) { return w.first.starts_with("ema."); }));
  const Outcome eval = rewire_command({"eval", whole, "--json", "--quiet"});
  REQUIRE(eval.code == 0);
  CHECK(Json::parse(eval.out).at("loss") == evaluation.at("loss"));
  const Outcome averages = rewire_command({"eval", whole, "--ema", "--json", "--quiet"});
  CHECK(Json::parse(averages.out).at("loss") == evaluation.at("ema_loss"));
}

TEST_CASE("A student and its teacher go on with other batches, and a stop after the change costs no bit") {
  const TemporaryFolder folder;
  const std::string recipe = distilled_recipe(folder), whole = folder.file("whole"),
                    parts = folder.file("parts");
  const auto resume = [](const std::string& run, const Words& more) {
    const Outcome outcome = rewire_command(Words{"train", "--resume", run, "--quiet"} + more);
    INFO(outcome.err);
    CHECK(outcome.code == 0);
  };
  for (const std::string& run : {whole, parts}) {
    REQUIRE(rewire_command({"train", recipe, "--out", run, "--quiet", "--set", "train.max_steps=2"}).code ==
            0);
    const char* end = run == whole ? "train.max_steps=0" : "train.max_steps=5";
    resume(run, {"--set", "train.batch=4", "--set", end});
  }
  resume(parts, {"--set", "train.max_steps=0"});
  CHECK(metrics(whole).back().at("step") == 2 + (48 - 16) / 4 + 48 / 4);
  for (const char* file : {"/weights.safetensors", "/weights_ema.safetensors"})
    CHECK(runtime::read_file(whole + file) == runtime::read_file(parts + file));
}

TEST_CASE("A run of self-distillation refuses what its views and its teacher do not have, in one line") {
  const TemporaryFolder folder;
  const auto refusal = [&](const Words& more) {
    const Outcome outcome = rewire_command(
        Words{"train", distilled_recipe(folder), "--out", folder.file("run"), "--quiet"} + more);
    CHECK(outcome.code == 2);
    return outcome.err;
  };
  CHECK_THAT(
      refusal({"--set", "objective.local_crops=3"}),
      REWIRE_CATCH_CONTAINS("the view 'local' is f32[2,1,1,8,8], but the objective takes f32[3,1,1,8,8]"));
  CHECK_THAT(refusal({"--set", "train.ema=0", "--set", "train.ema_end=-1"}),
             REWIRE_CATCH_CONTAINS("train.ema is 0: set train.ema, for example to 0.996"));
  CHECK_THAT(refusal({"--set", "objective.name=supervised"}),
             REWIRE_CATCH_CONTAINS("set objective.name=dino"));
  CHECK_THAT(refusal({"--set", "eval.batch=40", "--set", "data.train_fraction=0.3"}),
             REWIRE_CATCH_CONTAINS("eval.knn=3: an evaluation batch has 40 images"));
}

}  // namespace
}  // namespace rewire::test
