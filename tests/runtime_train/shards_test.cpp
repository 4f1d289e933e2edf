// Runs of several ranks: the same bits for any number of them, stopped at one rank and resumed by another number, and one
// answer to what they disagree about. The ranks are threads here; tests/runtime_group has processes.
#include <fmt/format.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "codegen/compile.h"
#include "codegen/files/digest.h"
#include "ir/error.h"
#include "runtime/data/loader.h"
#include "runtime/io/files.h"
#include "runtime/network/network.h"
#include "runtime/train/run_plan.h"
#include "runtime/train/trainer.h"
#include "tests/runtime_train/step_watch.h"
#include "tests/runtime_train/thread_group.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using Settings = std::vector<std::string>;

Settings operator+(Settings one, const Settings& more) {
  one.insert(one.end(), more.begin(), more.end());
  return one;
}

const Settings kData = {"data.format=synthetic", "data.count=52", "train.batch=16", "train.epochs=2",
                        "train.log_every=2",     "eval.batch=7",  "train.shards=4"};
const Settings kVit = {"model.dim=12",  "model.depth=2",     "model.heads=2",
                       "model.patch=7", "model.dropout=0.1", "model.drop_path=0.2"};

NetworkRequest network_of(const std::string& model, const Settings& settings) {
  NetworkRequest request;
  request.model = model;
  request.settings = settings;
  return request;
}

/// What one rank asks for; its network lives as long.
struct Asked {
  Network network;
  TrainRequest request;
  StepWatch watch;

  Asked(const std::string& model, const Settings& settings, Group& group)
      : network(resolve_network(network_of(model, settings))) {
    network.recipe.train.threads = 1;
    settle_shards(network.recipe, group, false);
    request.recipe = network.recipe;
    request.network = network_source(network);
    request.engine = engine_names().front();
    request.choices.autotune = false;
    request.group = &group;
  }
};

/// Trains with `ranks` ranks into the folder `run`, or resumes it. Ends after step `until`, by a signal at the last rank
/// alone. Returns the first error of a rank.
std::string train_by(int ranks, const std::string& model, const Settings& settings, const std::string& run,
                     std::int64_t until = 0, bool resumes = false) {
  const auto thrown = test::ThreadGroups(ranks).run([&](Group& group) {
    Asked asked(model, settings, group);
    if (until > 0 && group.rank() == ranks - 1)
      asked.request.stop_signal = [&] { return asked.watch.step >= until ? 15 : 0; };
    const TrainResult result = resumes ? resume_training(asked.request, run, asked.watch)
                                       : train(asked.request, run, OutFolder::exact, asked.watch);
    CHECK(result.stopped_by == (until > 0 ? 15 : 0));
    if (until > 0) CHECK(result.position.step == until);
  });
  const auto first = std::ranges::find_if(thrown, [](const std::string& text) { return !text.empty(); });
  return first == thrown.end() ? "" : *first;
}

/// The lines of metrics.jsonl without what time decides.
std::string metrics(const std::string& run) {
  std::ifstream file(run + "/metrics.jsonl");
  std::string lines;
  for (std::string line; std::getline(file, line);) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(line);
    for (const char* key : {"samples_per_s", "seconds"}) json.erase(key);
    lines += json.dump() + "\n";
  }
  return lines;
}

/// The digest of a file's bytes.
std::string bytes(const std::string& run, const char* file = "weights.safetensors") {
  return codegen::digest_hex(read_file(run + "/" + file));
}

TEST_CASE("1, 2 and 4 ranks train to the same bits and metrics") {
  struct Case {
    const char* name;
    const char* model;
    Settings settings;
  };
  const Case cases[] = {
      {"averages and accumulated batches", "vit_tiny_28",
       kVit + Settings{"train.ema=0.9", "train.accumulate=2", "train.batch=8", "train.clip_norm=0.5"}},
      {"mixup, the rest of an epoch", "vit_tiny_28",
       kVit + Settings{"transforms.mixup=0.8", "transforms.cutmix=1.0", "objective.targets=probabilities",
                       "transforms.crop_padding=2"}},
      {"soap", "vit_tiny_28", kVit + Settings{"optimizer.name=soap", "optimizer.precondition_frequency=2"}},
      {"batch norms", "resnetv2_18", {"model.depths=[1, 1, 1, 1]", "model.width=4", "eval.knn=3"}},
      {"masked autoencoder",
       "mae_vit_tiny_28",
       {"model.dim=12", "model.depth=1", "model.heads=2", "model.patch=7", "model.decoder_dim=12",
        "model.decoder_depth=1", "model.decoder_heads=2"}},
  };
  for (const Case& one : cases) {
    CAPTURE(one.name);
    const test::TemporaryFolder folder;
    const Settings settings = kData + one.settings;
    CHECK(train_by(1, one.model, settings, folder.file("1")) == "");
    for (const int ranks : {2, 4}) {
      CAPTURE(ranks);
      const std::string run = folder.file(std::to_string(ranks));
      CHECK(train_by(ranks, one.model, settings, run) == "");
      CHECK(bytes(run) == bytes(folder.file("1")));
      CHECK(metrics(run) == metrics(folder.file("1")));
      const std::string shared = run + "-zero";
      CHECK(train_by(ranks, one.model, settings + Settings{"train.zero=1"}, shared) == "");
      CHECK(bytes(shared) == bytes(folder.file("1")));
      CHECK(metrics(shared) == metrics(folder.file("1")));
    }
  }
}

TEST_CASE("A signal at one rank stops all at one step, and another number of ranks goes on") {
  const test::TemporaryFolder folder;
  const Settings settings = kData + kVit;
  CHECK(train_by(1, "vit_tiny_28", settings, folder.file("whole")) == "");
  const std::string run = folder.file("run");
  CHECK(train_by(2, "vit_tiny_28", settings, run, 2) == "");
  CHECK(train_by(4, "vit_tiny_28", settings, run, 5, true) == "");
  CHECK(train_by(1, "vit_tiny_28", settings, run, 0, true) == "");
  CHECK(bytes(run) == bytes(folder.file("whole")));
  CHECK(metrics(run) == metrics(folder.file("whole")));

  // A checkpoint is whole, whatever is shared out.
  const std::string zero = folder.file("zero");
  const Settings shared = settings + Settings{"train.zero=1"};
  CHECK(train_by(4, "vit_tiny_28", shared, zero, 2) == "");
  CHECK(train_by(1, "vit_tiny_28", shared, zero, 4, true) == "");
  CHECK(train_by(2, "vit_tiny_28", shared, zero, 5, true) == "");
  CHECK(train_by(4, "vit_tiny_28", settings, zero, 0, true) == "");
  CHECK(bytes(zero) == bytes(folder.file("whole")));
  CHECK(metrics(zero) == metrics(folder.file("whole")));
}

TEST_CASE("With ZeRO each rank has its part of the optimizer's states, and all have the weights") {
  for (const std::string optimizer : {"adamw", "soap", "muon"}) {
    for (const int ranks : {2, 4}) {
      CAPTURE(optimizer, ranks);
      std::vector<std::int64_t> own(static_cast<std::size_t>(ranks)), all(own.size());
      const auto thrown = test::ThreadGroups(ranks).run([&](Group& group) {
        Asked asked("vit_tiny_28",
                    kData + Settings{"optimizer.name=" + optimizer, "train.zero=1", "model.depth=4"}, group);
        const RunPlan plan(asked.request);
        const auto rank = static_cast<std::size_t>(group.rank());
        std::set<std::string> used;  // by what is left of the programs
        for (const ir::Function& function : plan.computed().functions) {
          ir::PassContext context;
          codegen::Program program = codegen::compile(plan.computed(), function, {}, context).program;
          drop_updates_of_others(program, plan.shares->others);
          for (const codegen::Buffer& buffer : program.buffers)
            if (buffer.kind == codegen::BufferKind::state) used.insert(buffer.name);
        }
        for (const ir::Parameter& state : plan.programs.module.parameters) {
          if (state.kind == ir::StateKind::weight) CHECK(used.contains(state.name));
          if (state.kind != ir::StateKind::moment) continue;
          all[rank] += state.type.bytes();
          own[rank] += used.contains(state.name) ? state.type.bytes() : 0;
        }
      });
      for (const std::string& text : thrown) CHECK(text == "");
      for (std::size_t rank = 0; rank < own.size(); ++rank)
        CHECK(static_cast<double>(own[rank]) < 1.1 * static_cast<double>(all[0]) / ranks);
    }
  }
}

TEST_CASE("Two shards of a batch are two accumulated batches") {
  const test::TemporaryFolder folder;
  const Settings settings = kData + kVit;
  CHECK(train_by(1, "vit_tiny_28", settings + Settings{"train.shards=2"}, folder.file("shards")) == "");
  CHECK(train_by(1, "vit_tiny_28",
                 settings + Settings{"train.shards=1", "train.batch=8", "train.accumulate=2"},
                 folder.file("batches")) == "");
  CHECK(bytes(folder.file("shards")) == bytes(folder.file("batches")));
}

TEST_CASE("Without train.shards a new run has one for each rank, and keeps them") {
  const test::TemporaryFolder folder;
  const Settings settings = kData + kVit + Settings{"train.shards=0"};
  const std::string two = folder.file("two"), one = folder.file("one");
  CHECK(train_by(2, "vit_tiny_28", settings, two) == "");
  CHECK(train_by(1, "vit_tiny_28", settings + Settings{"train.shards=2"}, one) == "");
  CHECK(bytes(two) == bytes(one));
  CHECK(bytes(two, "recipe.toml") == bytes(one, "recipe.toml"));
}

TEST_CASE("What ranks cannot do together is refused in one line") {
  const test::TemporaryFolder folder;
  const Settings settings = kData + kVit;
  const auto refused = [&](int ranks, const Settings& more) {
    return train_by(ranks, "vit_tiny_28", settings + more, folder.file("run"));
  };
  CHECK(refused(4, {"train.shards=2"}) ==
        "train.shards=2 cannot be shared out to 4 processes: start 2 or fewer, or --set train.shards=4");
  CHECK(refused(1, {"train.shards=3"}) == "train.shards is 3; it must be a power of two");
  CHECK(refused(1, {"train.batch=2"}) == "train.batch=2 does not divide into train.shards=4 equal parts");
  CHECK(refused(1, {"train.batch=10"}) == "train.batch=10 does not divide into train.shards=4 equal parts");
  const auto thrown = test::ThreadGroups(2).run([&](Group& group) {
    Asked asked("vit_tiny_28", settings + Settings{fmt::format("optimizer.lr=0.00{}", 1 + group.rank())},
                group);
    train(asked.request, folder.file("run"), OutFolder::exact, asked.watch);
  });
  for (const std::string& line : thrown)
    CHECK(line ==
          "rank 1 has another recipe than rank 0: start all ranks by the same command, from the same files");
  CHECK(folder.entries() == 0);
}

TEST_CASE("A step that is not finite is saved by rank 0, and one rank names the tensor") {
  const test::TemporaryFolder folder;
  const Settings settings = kData + kVit + Settings{"optimizer.lr=1e30", "schedule.warmup_epochs=0"};
  const std::string one = train_by(1, "vit_tiny_28", settings, folder.file("run"));
  CHECK_THAT(one, REWIRE_CATCH_CONTAINS("the loss or a gradient is not finite: "));
  const test::TemporaryFolder other;
  CHECK_THAT(train_by(2, "vit_tiny_28", settings, other.file("run")),
             REWIRE_CATCH_CONTAINS(one.substr(0, one.find(folder.file("run")))));
  CHECK(std::filesystem::exists(other.file("run/checkpoints/last")));
}

TEST_CASE("Loaders that share an epoch give its batches, each once") {
  const std::int64_t samples = 23;
  const SampleFunction sample = [](const Visit& visit, SampleRow row) {
    reinterpret_cast<std::int64_t&>(*row[0].data()) = visit.sample;
    return true;
  };
  LoaderOptions options;
  options.fields = {{"n", {ir::DType::i64, {}}}};
  options.batch = 2;
  options.prefetch = 3;
  for (const bool training : {true, false}) {
    options.training = training;
    options.share = {};
    Loader whole(sample, samples, options);
    std::vector<std::unique_ptr<Loader>> shares;
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      options.share = training ? LoaderShare{rank * 2, 2, 4} : LoaderShare{rank, 1, 2};
      shares.push_back(std::make_unique<Loader>(sample, samples, options));
    }
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (std::int64_t i = 0; i < whole.batches_per_epoch(); ++i) {
        Batch expected, batch;
        whole.next(expected);
        if (training && i >= 8) continue;  // of 11 batches two groups of 4
        Loader& loader = *shares[static_cast<std::size_t>(training ? i / 2 % 2 : i % 2)];
        CHECK(loader.position() == DataPosition{epoch, i, i * 2});
        loader.next(batch);
        CHECK(batch.index == i);
        CHECK(std::ranges::equal(batch.tensors.at("n").bytes(), expected.tensors.at("n").bytes()));
        CHECK(std::ranges::equal(batch.tensors.at("weight").bytes(), expected.tensors.at("weight").bytes()));
      }
    }
  }
}

}  // namespace
}  // namespace rewire::runtime
