// rewire features, probe and tokencut: a network's features as files, what probes find in them, boxes and pictures.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/io/files.h"
#include "runtime/io/npy.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

const Words kImages = {"--set", "data.format=synthetic", "--set", "data.count=96",
                       "--set", "train.batch=16",        "--set", "eval.batch=20"};

std::vector<float> numbers_in(const std::string& npy_path) {
  const runtime::HostTensor tensor = runtime::read_npy(npy_path);
  return {tensor.as<float>().begin(), tensor.as<float>().end()};
}

Json printed(const Words& words) {
  const Outcome outcome = rewire_command(words);
  CAPTURE(words, outcome.err);
  REQUIRE(outcome.code == 0);
  return Json::parse(outcome.out);
}

/// What the command is refused with: one line.
std::string refused(const Words& words) {
  const Outcome outcome = rewire_command(words);
  CAPTURE(words, outcome.out, outcome.err);
  CHECK(outcome.code == 2);
  CHECK(std::ranges::count(outcome.err, '\n') == 1);
  return outcome.err;
}

/// A run of some steps, on images with a class's pattern each.
std::string small_run(const TemporaryFolder& folder, const Words& model, const std::string& name = "run") {
  const std::string run = folder.file(name);
  const Outcome outcome = rewire_command(Words{"train"} + model + kImages +
                                         Words{"--set", "train.epochs=2", "--out", run, "--quiet"});
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  return run;
}

TEST_CASE("features writes what run --tap has, of a file's images or the data's") {
  const Workplace work;
  REQUIRE(work.init(kModel).code == 0);
  REQUIRE(work.run(kModel + Words{"--tap", "blocks.0.mlp=" + work.file("tap.npy")}).code == 0);
  const Words features = Words{"features"} + kModel + Words{"--weights", work.file("w.safetensors")};
  const std::string file = work.file("f.npy");
  const Words of_file = features + Words{"--input", work.file("x.npy"), "--output", file, "--json"};
  const Json told = printed(of_file + Words{"--kind", "tokens", "--layer", "-1"});
  CHECK(told.at("layers") == Json{"blocks.0"});
  CHECK(told.at("shape") == Json{kBatch, 4, 8});
  const std::vector<float> all = numbers_in(work.file("tap.npy")), patches = numbers_in(file);
  for (std::size_t i = 0; i < patches.size(); ++i) {
    const std::size_t image = i / 32, token = i / 8 % 4 + 1;
    CHECK(patches[i] == Approx(all[(image * 5 + token) * 8 + i % 8]).margin(1e-5));
  }
  CHECK(printed(of_file).at("shape") == Json{kBatch, 8});
  CHECK(printed(of_file).at("layers") == Json{"norm"});

  const Words of_data = features + kImages + Words{"--output", file,    "--labels", work.file("l.npy"),
                                                   "--split",  "train", "--images", "50",
                                                   "--kind",   "mean",  "--json"};
  CHECK(printed(of_data).at("shape") == Json{50, 8});
  CHECK(runtime::read_npy(work.file("l.npy")).type() == ir::TensorType{ir::DType::i64, {50}});
  // In order, whatever the batch.
  const std::vector<float> before = numbers_in(file);
  printed(of_data + Words{"--set", "eval.batch=7"});
  const std::vector<float> after = numbers_in(file);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(after[i] == Approx(before[i]).margin(1e-5));
  printed(features + kImages +
          Words{"--pca", work.file("p.png"), "--kind", "keys", "--images", "5", "--json"});
  CHECK(fs::file_size(work.file("p.png")) > 100);
}

TEST_CASE("A run's features are probed by its own labels: a linear layer, neighbours, pixels") {
  const TemporaryFolder folder;
  const std::string run = small_run(folder, kModel);
  const std::string output = folder.file("probe.json");
  const Words probe = {"probe", run, "--json", "--output", output};
  const Json linear = printed(probe + Words{"--epochs", "20", "--batch", "32", "--sets", "2", "--norm"});
  CHECK(linear.at("features") == "class");
  CHECK(linear.at("sets") == 2);
  CHECK(linear.at("train_images") == 96);
  CHECK(linear.at("top5") >= linear.at("top1"));
  CHECK(linear.at("top1") > .3);  // of ten classes
  CHECK(linear.at("loss") > 0);
  std::ostringstream written;
  CHECK(Json::parse(read_text(output)) == linear);

  const Json knn = printed(
      probe + Words{"--kind", "knn", "--features", "mean", "--layer", "blocks.0", "--neighbours", "5"});
  CHECK(knn.at("layers") == Json{"blocks.0"});
  CHECK(knn.at("neighbours") == 5);
  CHECK(knn.at("top1") > .3);

  const Json dense =
      printed(probe + Words{"--kind", "dense", "--images", "64", "--test-images", "32", "--epochs", "3",
                            "--batch", "16", "--scales", "single", "--threshold", ".5"});
  REQUIRE(dense.size() == 1);
  CHECK(dense[0].at("classes") == 11);
  CHECK(dense[0].at("mean_iou") <= dense[0].at("pixel_accuracy"));
  const Outcome line = rewire_command({"probe", run, "--kind", "knn", "--quiet"});
  CHECK_THAT(line.out, Catch::Matchers::StartsWith("knn probe of class at norm: top-1 "));
}

TEST_CASE("tokencut prints a box for each image, draws masks, and counts what is found") {
  const TemporaryFolder folder;
  const std::string run = small_run(folder, kModel + Words{"--set", "model.patch=7"});
  const std::string pictures = folder.file("pictures");
  std::string boxes = "[";
  for (int i = 0; i < 3; ++i) boxes += std::string(i == 0 ? "" : ", ") + "[[0, 0, 28, 28], [0, 0, 7, 7]]";
  write_text(folder.file("boxes.json"), boxes + "]");
  const Words common = {"tokencut", run, "--output", pictures, "--quiet", "--images"};
  const Words words = common + Words{"3"};
  const Outcome outcome = rewire_command(words + Words{"--boxes", folder.file("boxes.json")});
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  std::istringstream lines(outcome.out);
  std::vector<Json> told;
  for (std::string line; std::getline(lines, line);) told.push_back(Json::parse(line));
  REQUIRE(told.size() == 4);
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& box = told[i].at("box");
    CHECK(box[0] < box[2]);
    CHECK(box[3] <= 28);
    CHECK(box[0].get<int>() % 7 == 0);
    CHECK(told[i].at("foreground") > 0);
    CHECK(fs::exists(pictures + "/0000" + std::to_string(i) + ".png"));
  }
  CHECK(told[3].at("images") == 3);
  CHECK(told[3].at("corloc") >= 0);
  CHECK(rewire_command(words).out == outcome.out.substr(0, outcome.out.rfind("{\"images\"")));
  CHECK_THAT(refused(common + Words{"4", "--boxes", folder.file("boxes.json")}),
             REWIRE_CATCH_CONTAINS("it has the boxes of 3 images, but 4 images are taken"));
}

TEST_CASE("A masked autoencoder's encoder gives features, and a vit is trained from it") {
  const TemporaryFolder folder;
  const Words mae = {
      "mae_vit_tiny_28",       "--set", "model.dim=8",           "--set", "model.depth=1",       "--set",
      "model.heads=2",         "--set", "model.patch=7",         "--set", "model.decoder_dim=8", "--set",
      "model.decoder_heads=2", "--set", "model.decoder_depth=1", "--set", "objective.name=mae"};
  const std::string run = small_run(folder, mae);
  const Json told = printed({"features", run, "--output", folder.file("f.npy"), "--json"});
  CHECK(told.at("shape") == Json{96, 8});
  CHECK(told.at("layers") == Json{"norm"});
  CHECK(printed({"probe", run, "--epochs", "2", "--json"}).at("test_images") == 96);
  // Its own network takes noise too, and no vit has its decoder.
  const Words vit =
      kModel + Words{"--set", "model.patch=7",      "--set", "train.weights=" + run + "/weights.safetensors",
                     "--set", "train.new_head=true"};
  CHECK_THAT(refused(Words{"train"} + vit + kImages + Words{"--out", folder.file("no"), "--quiet"}),
             REWIRE_CATCH_CONTAINS("the model has no 'decoder_blocks.0.attn.proj.bias'"));
  small_run(folder, vit + Words{"--set", "train.extra_weights=ignore"}, "tuned");
}

TEST_CASE("What a run is made of is not written over, and two outputs are two files") {
  const TemporaryFolder folder;
  const std::string run = small_run(folder, kModel + Words{"--set", "model.patch=7"});
  const auto before = runtime::read_file(run + "/recipe.toml");
  for (const std::string file : {"/recipe.toml", "/weights.safetensors", "/metrics.jsonl"}) {
    CAPTURE(file);
    CHECK_THAT(refused({"features", run, "--output", run + file, "--quiet"}),
               REWIRE_CATCH_CONTAINS("is a file of the run " + run + ": choose another"));
    CHECK_THAT(refused({"probe", run, "--output", run + file, "--quiet"}),
               REWIRE_CATCH_CONTAINS("is a file of the run " + run + ": choose another"));
  }
  CHECK(runtime::read_file(run + "/recipe.toml") == before);
  CHECK(rewire_command({"features", run, "--output", run + "/features.npy", "--quiet"}).code == 0);
  CHECK_THAT(
      refused({"features", run, "--output", folder.file("f"), "--labels", folder.file("./f"), "--quiet"}),
      REWIRE_CATCH_CONTAINS("is also the file of --output: choose another"));
  CHECK_THAT(refused({"tokencut", run, "--tau", "1", "--quiet"}),
             REWIRE_CATCH_CONTAINS("--tau 1: a cosine is at most 1"));
  CHECK_THAT(refused({"probe", run, "--kind", "dense", "--threshold", "2", "--quiet"}),
             REWIRE_CATCH_CONTAINS("--threshold 2: brightness is 0 to 1"));
  CHECK_THAT(refused({"probe", run, "--sets", "100000000", "--quiet"}),
             REWIRE_CATCH_CONTAINS("--sets 100000000: at most 1000"));
}

TEST_CASE("Neighbours of a masked autoencoder do without what plugins add to its decoder") {
  const TemporaryFolder folder;
  if (!fs::exists(REWIRE_PLUGIN_FOLDER "/decay.so")) return;
  Words train = {"train", "mae_vit_tiny_28",      "--set", "model.dim=8",
                 "--set", "model.depth=2",        "--set", "model.heads=2",
                 "--set", "model.decoder_dim=8",  "--set", "model.decoder_heads=2",
                 "--set", "model.decoder_depth=2"};
  train = train + kImages +
          Words{"--set", "train.max_steps=1", "--set", "eval.knn=3", "--set", "eval.pictures=0"};
  train = train + Words{"--plugin", "decay:scope=decoder", "--out", folder.file("run"), "--quiet"};
  const Outcome outcome = rewire_command(train);
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  CHECK_THAT(refused(Words{"train", "sit_tiny_28"} + kImages +
                     Words{"--set", "eval.knn=3", "--quiet", "--out", folder.file("s")}),
             REWIRE_CATCH_CONTAINS("eval.knn: the model sit_tiny_28 has no form without a head"));
}

TEST_CASE("What no features can be had of is refused in one line") {
  const TemporaryFolder folder;
  const Words vit = kModel + kImages;
  const std::string output = folder.file("f.npy");
  const Words features = Words{"features"} + vit + Words{"--quiet", "--output", output};
  CHECK_THAT(refused(features + Words{"--layer", "blocks.1"}),
             REWIRE_CATCH_CONTAINS(
                 "--layer blocks.1: the network has no such layer (did you mean 'blocks.0'?); it has "
                 "1 blocks, blocks.0 to blocks.0, and norm"));
  CHECK_THAT(refused(features + Words{"--images", "97"}),
             REWIRE_CATCH_CONTAINS("--images 97: synthetic data has 96 images to test with"));
  CHECK_THAT(refused(features + Words{"--kind", "keyz"}), REWIRE_CATCH_CONTAINS("did you mean 'keys'?"));
  CHECK_THAT(refused(features + Words{"--pca", folder.file("p.png")}),
             REWIRE_CATCH_CONTAINS("--pca needs the patches' features: use --kind tokens or keys"));
  CHECK_THAT(refused(Words{"features"} + vit + Words{"--quiet"}),
             REWIRE_CATCH_CONTAINS("give a file to write: --output FILE.npy or --pca FILE.png"));
  CHECK_THAT(
      refused(features + Words{"--checkpoint", "best"}),
      REWIRE_CATCH_CONTAINS("--checkpoint chooses among the weights of a run, but vit_tiny_28 is not a run"));
  const Words probe = Words{"probe"} + vit + Words{"--quiet"};
  CHECK_THAT(refused(probe + Words{"--features", "tokens"}),
             REWIRE_CATCH_CONTAINS("--kind linear takes one vector per image: use --features class or mean"));
  CHECK_THAT(refused(probe + Words{"--sets", "1", "--images", "8"}),
             REWIRE_CATCH_CONTAINS("with --sets, set data.train_fraction or data.train_list"));
  CHECK_THAT(refused(probe + Words{"--lr", "much"}), REWIRE_CATCH_CONTAINS("'much' is not a number"));
  const std::string masks = folder.file("masks.npy");
  const Words dense = probe + Words{"--kind", "dense", "--labels", masks};
  CHECK(refused(dense) == "rewire: probe: there are no masks at " + masks +
                              "; --labels threshold makes them from the images\n");
  write_text(masks, "");
  CHECK_THAT(refused(dense), REWIRE_CATCH_CONTAINS("also give --test-labels FILE.npy"));
  CHECK_THAT(refused(dense + Words{"--test-labels", masks, "--images", "8"}), REWIRE_CATCH_CONTAINS(masks));
  CHECK_THAT(refused(probe + Words{"--labels", masks}), REWIRE_CATCH_CONTAINS("work only with --kind dense"));
  CHECK_THAT(refused(probe + Words{"--kind", "knn", "--sets", "2"}),
             REWIRE_CATCH_CONTAINS("--sets works only with --kind linear, not with knn"));
  const Words resnet = {"resnet",         "--set", "model.depths=[1,1]", "--set", "model.width=4", "--set",
                        "model.image=16", "--set", "model.stem=conv3"};
  CHECK_THAT(refused(Words{"probe"} + resnet + kImages + Words{"--quiet"}),
             REWIRE_CATCH_CONTAINS("--kind class: the network has no class token but maps"));
  CHECK_THAT(refused(Words{"tokencut"} + resnet + kImages + Words{"--quiet"}),
             REWIRE_CATCH_CONTAINS("layer2.0 has no attention, and so no keys"));
}

}  // namespace
}  // namespace rewire::test
