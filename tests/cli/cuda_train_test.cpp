// Training with strategies on the engine for a GPU, on the fake libraries: every strategy that is built,
// phases, drawn joins, gradient accumulation, mixed precision. Losses as on the CPU, and the same bits
// whatever the order of streams.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/fixture.h"
#include "tests/fake_cuda/use.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

struct Training {
  std::string name;
  std::vector<std::string> plugins;
  Words settings;
  double tolerance;  // of a loss, relative
};

const std::vector<Training> kTrainings = {
    {"learnable decay by SGD, two batches a step",
     {"decay:learnable=true"},
     {"optimizer.name=sgd", "optimizer.lr=0.05", "train.accumulate=2"},
     1e-4},
    {"joins drawn in every step, beside decayed ones",
     {"orthogonal:probability=0.5,sites=attn", "decay:alpha_min=0.6,sites=mlp"},
     {"model.dropout=0.1", "model.drop_path=0.2"},
     1e-4},
    {"paths in bf16", {"augment:paths=1,blocks=4"}, {"train.dtype=bf16"}, 2e-2},
    {"no shortcuts, a stream of bf16", {"skipless"}, {"train.dtype=bf16", "train.stream_dtype=bf16"}, 2e-2},
    {"GELU by tanh, with its products", {}, {"model.act_layer=gelu_tanh"}, 1e-4},
    {"GELU by tanh, with its products in bf16", {}, {"model.act_layer=gelu_tanh", "train.dtype=bf16"}, 2e-2},
    {"another strategy in the second epoch",
     {"orthogonal:mode=global,from_epoch=1"},
     {"train.on_switch=reset", "train.clip_norm=0.5"},
     1e-4},
};

Words command(const Training& training, const std::string& out) {
  Words words = Words{"train"} + kModel + Words{"--quiet", "--no-autotune", "--out", out};
  for (const std::string& plugin : training.plugins) words = words + Words{"--plugin", plugin};
  for (const char* setting : {"model.depth=2", "data.format=synthetic", "data.count=32", "train.batch=4",
                              "train.epochs=2", "train.log_every=1", "eval.batch=20"})
    words = words + Words{"--set", setting};
  for (const std::string& setting : training.settings) words = words + Words{"--set", setting};
  return words;
}

TEST_CASE("strategies train on a GPU as on the CPU, and to the same bits in any order of its streams") {
  for (const Training& training : kTrainings) {
    if (!std::ranges::all_of(training.plugins, is_built)) continue;
    CAPTURE(training.name);
    const TemporaryFolder folder;
    const Outcome gpu = on_fake(command(training, folder.file("gpu")) + Words{"--device", "cuda"});
    CHECK(gpu.err.empty());
    REQUIRE(gpu.code == 0);
    CHECK(Json::parse(read_text(folder.file("gpu/choices.json"))).at("engine") == "cuda");
    const Outcome again = on_fake(command(training, folder.file("again")) + Words{"--device", "cuda"},
                                  {"REWIRE_FAKE_CUDA_ORDER=7"});
    REQUIRE(again.code == 0);
    CHECK(read_text(folder.file("again/weights.safetensors")) ==
          read_text(folder.file("gpu/weights.safetensors")));
    REQUIRE(rewire_command(command(training, folder.file("cpu"))).code == 0);
    const std::vector<Json> on_gpu = metrics(folder.file("gpu")), on_cpu = metrics(folder.file("cpu"));
    REQUIRE(on_gpu.size() == on_cpu.size());
    REQUIRE(on_gpu.size() > 8);
    for (std::size_t i = 0; i < on_cpu.size(); ++i) {
      CAPTURE(i);
      CHECK(on_gpu[i].at("kind") == on_cpu[i].at("kind"));
      CHECK(on_gpu[i].at("loss").get<double>() ==
            Approx(on_cpu[i].at("loss").get<double>()).epsilon(training.tolerance));
    }
  }
}

}  // namespace
}  // namespace rewire::test
