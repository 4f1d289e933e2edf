// The recipes of papers, each on made-up files of the real layout, for three steps.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "ir/residual.h"
#include "runtime/io/files.h"
#include "runtime/io/safetensors.h"
#include "runtime/network/network.h"
#include "runtime/sweep/sweep.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

std::string recipe(const std::string& name) {
  return REWIRE_EXAMPLES "/recipes/" + name + ".toml";
}

/// Three steps and an evaluation; the metrics of its last line.
Json three_steps(const std::string& name, const TemporaryFolder& folder, const Words& more,
                 const std::string& depth = "model.depth=1") {
  const Words small = {"--set",  "data.path=" + folder.path().string(),
                       "--set",  "train.epochs=3",
                       "--set",  "train.max_steps=3",
                       "--set",  "train.batch=4",
                       "--set",  "eval.batch=4",
                       "--set",  "schedule.warmup_epochs=1",
                       "--set",  depth,
                       "--quiet"};
  const Outcome run =
      rewire_command(Words{"train", recipe(name), "--out", folder.file("run_" + name)} + small + more);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  const Outcome eval = rewire_command({"eval", folder.file("run_" + name), "--json"});
  REQUIRE(eval.code == 0);
  return Json::parse(eval.out);
}

/// Records of `label_bytes` labels, the last below ten, and pixels of no pattern.
std::string records(int count, int label_bytes) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < label_bytes; ++k) text += static_cast<char>(i % 10);
    for (int p = 0; p < 3072; ++p) text += static_cast<char>((i * 31 + p * p * 7) % 251);
  }
  return text;
}

/// The file of one of the golden images.
void put_image(const TemporaryFolder& folder, const std::string& path, const std::string& image) {
  static const runtime::TensorMap files =
      runtime::read_safetensors(std::string(REWIRE_GOLDENS) + "/images.safetensors").tensors;
  fs::create_directories((folder.path() / path).parent_path());
  runtime::write_file_atomically(folder.file(path), files.at("file." + image + ".bytes").bytes());
}

TEST_CASE("The recipe of the orthogonal paper trains on CIFAR-10's and CIFAR-100's files") {
  const TemporaryFolder ten, hundred;
  for (int batch = 1; batch <= 5; ++batch)
    runtime::write_file_atomically(ten.file("data_batch_" + std::to_string(batch) + ".bin"), records(3, 1));
  runtime::write_file_atomically(ten.file("test_batch.bin"), records(6, 1));
  CHECK(three_steps("cifar10_vit_s", ten, {}).at("samples") == 6);
  CHECK(three_steps("cifar10_resnetv2_18", ten, {"--set", "model.width=4"}, "model.depths=[1, 1]")
            .at("samples") == 6);
  runtime::write_file_atomically(hundred.file("train.bin"), records(13, 2));
  runtime::write_file_atomically(hundred.file("test.bin"), records(5, 2));
  CHECK(three_steps("cifar10_vit_s", hundred, {"--set", "model.classes=100"}).at("samples") == 5);
}

TEST_CASE("The recipes of ImageNet train on a folder of JPEG and PNG files, whatever their sizes") {
  const TemporaryFolder folder;
  const auto put = [&](const std::string& path, const std::string& image) { put_image(folder, path, image); };
  int number = 0;
  for (const char* image :
       {"jpeg_420", "jpeg_grey", "jpeg_cmyk", "jpeg_progressive", "png_alpha", "png_palette", "png_16_bits",
        "jpeg_one_pixel", "png_one_bit", "jpeg_444", "png_grey", "png_rgb"})
    put("train/n0" + std::to_string(number++ % 2) + "/" + image + ".img.JPEG", image);
  put("val/n00/a.jpg", "jpeg_422");
  put("val/n01/b.png", "png_rgb");
  for (const char* name :
       {"imagenet_deit_s", "imagenet_deit_s_augment", "imagenet_deit_b_augment", "imagenet_vit_b_skipless"}) {
    CAPTURE(name);
    const Json result = three_steps(name, folder, {"--set", "model.image=32", "--set", "model.dim=24"});
    CHECK(result.at("samples") == 2);
  }
  CHECK(
      three_steps("imagenet_vit_s_orthogonal", folder, {"--set", "model.image=32", "--set", "model.patch=8"})
          .at("samples") == 2);
  const Words autoencoder = {"--set", "model.image=32",        "--set", "model.patch=8",
                             "--set", "model.dim=24",          "--set", "model.decoder_dim=24",
                             "--set", "model.decoder_heads=3", "--set", "model.decoder_depth=2"};
  CHECK(three_steps("imagenet_mae_vit_b_decay", folder, autoencoder, "model.depth=4").at("samples") == 2);
  const Words finetuned = {
      "--set",    "model.image=48",
      "--set",    "model.patch=8",
      "--set",    "model.dim=24",
      "--set",    "train.weights=" + folder.file("run_imagenet_mae_vit_b_decay") + "/weights.safetensors",
      "--plugin", "decay:alpha_min=0.6"};
  CHECK(three_steps("imagenet_mae_finetune_vit_b", folder, finetuned, "model.depth=4").at("samples") == 2);
  Words distilled = {"--set", "model.image=32", "--set", "model.dim=24", "--set", "model.hidden_dim=16"};
  distilled = distilled + Words{"--set", "model.out_dim=64", "--set", "eval.knn_images=8"};
  CHECK(three_steps("imagenet_dino_vit_s_skipless", folder, distilled).at("samples") == 2);
  CHECK(three_steps("imagenet10_resnet18_depth", folder,
                    {"--set", "model.image=32", "--set", "model.width=4", "--set", "model.classes=2"},
                    "model.depths=[1, 1, 2, 1]")
            .at("samples") == 2);
  if (fs::exists(REWIRE_PLUGIN_FOLDER "/augment.so")) {
    const Words small = {"--set", "model.image=32"};
    CHECK(three_steps("imagenet_pvt_small", folder, small, "model.depths=[1, 1, 1, 1]").at("samples") == 2);
    CHECK(three_steps("imagenet_t2t_vit_14", folder, small).at("samples") == 2);
  }
}

TEST_CASE(
    "Weights are carried over to a larger image and to other classes, as the recipes of DeiT's fine-tuning "
    "do") {
  if (!fs::exists(REWIRE_PLUGIN_FOLDER "/augment.so")) return;
  const TemporaryFolder images, ten;
  for (const char* name : {"train/n00/a.jpg", "train/n01/b.jpg", "train/n00/c.jpg", "train/n01/d.jpg",
                           "val/n00/a.jpg", "val/n01/b.jpg"})
    put_image(images, name, "jpeg_420");
  for (int batch = 1; batch <= 5; ++batch)
    runtime::write_file_atomically(ten.file("data_batch_" + std::to_string(batch) + ".bin"), records(3, 1));
  runtime::write_file_atomically(ten.file("test_batch.bin"), records(6, 1));
  const Words small = {"--set", "model.dim=24"};
  CHECK(three_steps("imagenet_deit_b_augment", images, small + Words{"--set", "model.image=32"})
            .at("samples") == 2);
  const auto from = [](const TemporaryFolder& folder, const std::string& run) {
    return Words{"--set", "train.weights=" + folder.file("run_" + run) + "/weights.safetensors"};
  };
  CHECK(three_steps("imagenet_deit_b_384_augment", images,
                    small + Words{"--set", "model.image=48"} + from(images, "imagenet_deit_b_augment"))
            .at("samples") == 2);
  CHECK(three_steps("cifar10_deit_b_384_transfer", ten,
                    small + Words{"--set", "model.image=48"} + from(images, "imagenet_deit_b_384_augment"))
            .at("samples") == 6);
  const Outcome without = rewire_command(
      {"train", recipe("cifar10_deit_b_384_transfer"), "--set", "data.path=" + ten.path().string(), "--set",
       "train.batch=4", "--set", "model.depth=1", "--set", "model.dim=24", "--out", ten.file("none")});
  CHECK(without.code == 2);
  CHECK_THAT(without.err,
             REWIRE_CATCH_CONTAINS("train.new_head has no effect without train.weights; set train.weights"));
}

TEST_CASE("Each run of each sweep that comes with Rewire is a network that can be built") {
  std::size_t runs = 0;
  for (const fs::directory_entry& file : fs::directory_iterator(REWIRE_EXAMPLES "/sweeps")) {
    const runtime::Sweep sweep = runtime::read_sweep(file.path().string());
    for (const runtime::SweepRun& run : runtime::sweep_runs(sweep)) {
      if (run.seed.value_or(0) != 0) continue;
      CAPTURE(file.path().string(), run.name);
      runtime::NetworkRequest request;
      request.model = sweep.recipe.text;
      request.settings = run.settings;
      request.plugins = run.plugins->flags;
      request.plugin_path = {REWIRE_PLUGIN_FOLDER};
      try {
        CHECK(runtime::rewritten_module(runtime::resolve_network(request), 1).find_function("forward") !=
              nullptr);
        ++runs;
      } catch (const UserError& error) {  // a build without that plugin
        CHECK(std::string(error.what()).starts_with("plugin '"));
      }
    }
  }
  CHECK(runs >= 20);
}

TEST_CASE("The recipes of papers and their siblings have the networks that they name, and what joins add") {
  struct Row {
    std::string recipe, plugin;
    std::int64_t weights;  // of the network, counted in timm where timm has it
    std::int64_t added;    // by the plugin
    std::size_t joins;
  };
  // Augmented shortcuts: 2 paths of blocks * width numbers a join.
  const std::vector<Row> rows = {
      {"cifar10_vit_s", "orthogonal", 10685962, 0, 12},
      {"tiny_imagenet_vit_s", "orthogonal", 10814408, 0, 12},
      {"imagenet_deit_s", "", 22050664, 0, 24},
      {"imagenet_deit_s_augment", "augment", 22050664, 24 * 2 * 4 * 384, 24},
      {"imagenet_deit_b_augment", "augment", 86567656, 24 * 2 * 4 * 768, 24},
      {"imagenet_vit_b_skipless", "skipless", 86567656, 0, 24},
      {"cifar10_resnetv2_18", "orthogonal", 11176074, 0, 8},
      {"tiny_imagenet_resnetv2_18", "orthogonal", 11273544, 0, 8},
      {"imagenet10_resnet18_depth", "decay", 15904330, 0, 12},
      {"imagenet_vit_s_orthogonal", "orthogonal", 11394280, 0, 12},
      {"imagenet_deit_b_384_augment", "augment", 86859496, 24 * 2 * 4 * 768, 24},
      {"cifar10_deit_b_384_transfer", "augment", 86098186, 24 * 2 * 4 * 768, 24},
      // 6 blocks of 198,272; patches, positions, the last norm and the head.
      {"fashion_deit_augment", "augment", 6 * 198272 + 10250, 12 * 2 * 4 * 128, 12}};
  const auto weights_of = [](const ir::Module& module) {
    std::int64_t count = 0;
    for (const ir::Parameter& p : module.parameters) count += p.trainable ? p.type.elements() : 0;
    return count;
  };
  for (const Row& row : rows) {
    CAPTURE(row.recipe);
    if (!row.plugin.empty() && !fs::exists(REWIRE_PLUGIN_FOLDER "/" + row.plugin + ".so")) continue;
    runtime::NetworkRequest request;
    request.model = recipe(row.recipe);
    request.settings = {"data.path=" + fs::temp_directory_path().string()};
    request.plugin_path = {REWIRE_PLUGIN_FOLDER};
    const runtime::Network network = runtime::resolve_network(request);
    const ir::Module original = runtime::original_module(network, 1);
    CHECK(weights_of(original) == row.weights);
    CHECK(ir::find_joins(original.function("forward")).size() == row.joins);
    CHECK(weights_of(runtime::rewritten_module(network, 1)) == row.weights + row.added);
  }
}

TEST_CASE(
    "The recipe of the orthogonal paper trains on Tiny ImageNet as it is distributed, and on its shards") {
  const TemporaryFolder folder, shards;
  const auto put = [&](const std::string& path, const std::string& image) { put_image(folder, path, image); };
  int number = 0;
  for (const char* image : {"jpeg_420", "jpeg_grey", "jpeg_progressive", "png_rgb", "jpeg_444", "png_grey"}) {
    const std::string wnid = "n0" + std::to_string(number % 3);
    put("train/" + wnid + "/images/" + wnid + "_" + std::to_string(number++) + ".JPEG", image);
  }
  put("val/images/val_0.JPEG", "jpeg_422");
  put("val/images/val_1.JPEG", "jpeg_grey");
  put("val/images/val_2.JPEG", "png_rgb");
  runtime::write_file_atomically(folder.file("val/val_annotations.txt"),
                                 "val_0.JPEG\tn02\t0\t0\t1\t1\nval_1.JPEG\tn00\t0\t0\t1\t1\n"
                                 "val_2.JPEG\tn01\t0\t0\t1\t1\n");
  CHECK(three_steps("tiny_imagenet_vit_s", folder, {}).at("samples") == 3);
  CHECK(three_steps("tiny_imagenet_resnetv2_18", folder, {"--set", "model.width=4"}, "model.depths=[1, 1]")
            .at("samples") == 3);

  const Outcome pack =
      rewire_command({"data", "pack", folder.path().string(), "--output", shards.path().string(), "--format",
                      "tiny_imagenet", "--shard-size", "1"});
  CAPTURE(pack.err);
  REQUIRE(pack.code == 0);
  CHECK(pack.out.ends_with("9 images in 2 shards; train on them with data.format=shards data.path=" +
                           shards.path().string() + "\n"));
  CHECK(three_steps("tiny_imagenet_vit_s", shards, {"--set", "data.format=shards"}).at("samples") == 3);
}

}  // namespace
}  // namespace rewire::test
