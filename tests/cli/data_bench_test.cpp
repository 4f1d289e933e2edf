// rewire data bench and bench --data: what they count adds up, and what they are asked wrongly is refused.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/data/vision/png_file.h"
#include "runtime/io/files.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

const Words kBench = {"data", "bench", "vit_tiny_28", "--seconds", "1", "--set", "data.format=synthetic"};

TEST_CASE("data bench counts the images of both splits, without padding") {
  const Outcome trained = rewire_command(
      kBench + Words{"--set", "data.count=70", "--set", "train.batch=32", "--threads", "2", "--json"});
  REQUIRE(trained.code == 0);
  const auto train = nlohmann::json::parse(trained.out);
  CHECK(train.at("split") == "train");
  CHECK(train.at("images") == 70);
  CHECK(train.at("batch") == 32);
  CHECK(train.at("threads") == 2);
  const auto& loader = train.at("loader");
  CHECK(loader.at("images") == 32 * loader.at("batches").get<std::int64_t>());
  CHECK(loader.at("seconds") >= 1.0);
  CHECK(loader.at("processor_seconds") > 0.0);
  CHECK(loader.at("images_per_s").get<double>() ==
        Approx(loader.at("images").get<double>() / loader.at("seconds").get<double>()));
  CHECK(loader.at("batch_ms").get<double>() ==
        Approx(1e3 * loader.at("seconds").get<double>() / loader.at("batches").get<double>()));
  CHECK(train.at("one_thread").at("transforms_us") > 0.0);
  CHECK(train.at("one_thread").at("batch_transforms_us") == 0.0);

  const Outcome tested = rewire_command(
      kBench + Words{"--split", "test", "--set", "data.count=70", "--set", "eval.batch=64", "--json"});
  REQUIRE(tested.code == 0);
  const auto test = nlohmann::json::parse(tested.out);
  const auto batches = test.at("loader").at("batches").get<std::int64_t>();
  const auto counted = test.at("loader").at("images").get<std::int64_t>();
  // Passes of 64 images and the 6 that are left; the warm-up is two of them.
  CHECK(test.at("images") == 70);
  CHECK(counted == batches / 2 * 70 + batches % 2 * 64);
}

TEST_CASE("data bench names what it cannot measure") {
  const Outcome split = rewire_command(kBench + Words{"--split", "tset"});
  CHECK(split.code == 2);
  CHECK_THAT(split.err, REWIRE_CATCH_CONTAINS("'tset' is none of train, test"));
  const Outcome missing = rewire_command(
      {"data", "bench", "vit_tiny_28", "--set", "data.format=folder", "--set", "data.path=/no"});
  CHECK(missing.code == 2);
  CHECK(std::count(missing.err.begin(), missing.err.end(), '\n') == 1);
  CHECK_THAT(missing.err, REWIRE_CATCH_CONTAINS("/no/train"));
}

/// PNG files of noise, which take much longer to decode than a step of kModel takes.
Words noise_folder(const TemporaryFolder& folder) {
  runtime::DrawnImage image{1, 500, 500, std::vector<std::uint8_t>(250'000)};
  std::uint32_t state = 1;
  for (std::uint8_t& pixel : image.pixels)
    pixel = static_cast<std::uint8_t>((state = state * 1664525 + 1) >> 24);
  for (const char* split : {"train", "val"}) {
    std::filesystem::create_directories(folder.path() / split / "a");
    for (int i = 0; i < 8; ++i)
      runtime::write_file_atomically(folder.file(std::string(split) + "/a/" + std::to_string(i) + ".png"),
                                     runtime::encode_png(image));
  }
  return {"--set",   "data.format=folder",
          "--set",   "data.path=" + folder.path().string(),
          "--set",   "transforms.resize=bilinear",
          "--batch", "4",
          "--steps", "6",
          "--quiet", "--no-autotune",
          "--json"};
}

TEST_CASE("bench --data says what the data and the steps give, and names what limits training") {
  const TemporaryFolder folder;
  const Outcome folders = rewire_command(Words{"bench"} + kModel + Words{"--data"} + noise_folder(folder));
  REQUIRE(folders.code == 0);
  const Json on_cpu = Json::parse(folders.out).at("data");
  CHECK(on_cpu.at("images_per_step") == 4);
  CHECK(on_cpu.at("threads") == 1);  // the steps take the cores
  CHECK(on_cpu.at("input_bytes") == 4 * (28 * 28 * 4 + 8));
  CHECK(on_cpu.at("decode_us") > on_cpu.at("read_us"));
  CHECK(on_cpu.at("mix_us") == 0);
  CHECK(on_cpu.at("waited_share") > 0.1);
  CHECK_THAT(on_cpu.at("verdict").get<std::string>(), REWIRE_CATCH_CONTAINS("the data limit training, "));
  CHECK_THAT(on_cpu.at("verdict").get<std::string>(), REWIRE_CATCH_CONTAINS("decode takes "));
  CHECK_THAT(on_cpu.at("verdict").get<std::string>(), REWIRE_CATCH_CONTAINS("or set data.cache"));

  // A GPU takes bytes, from threads on all cores.
  const Outcome gpu =
      on_fake(Words{"bench"} + kModel + Words{"--data", "--device", "cuda"} + noise_folder(folder));
  REQUIRE(gpu.code == 0);
  const Json on_gpu = Json::parse(gpu.out).at("data");
  CHECK(on_gpu.at("threads") == on_gpu.at("cores"));
  CHECK(on_gpu.at("input_bytes") == 4 * (28 * 28 + 8));

  const Outcome made =
      rewire_command({"bench", "vit_tiny_28", "--data", "--set", "data.format=synthetic", "--set",
                      "data.count=64", "--batch", "16", "--steps", "3", "--quiet", "--no-autotune"});
  REQUIRE(made.code == 0);
  CHECK_THAT(made.out, REWIRE_CATCH_CONTAINS("\nlimit     the steps limit training: the data alone give "));
  CHECK_THAT(made.out, REWIRE_CATCH_CONTAINS("\ndata      1 thread on "));
}

TEST_CASE("bench --data is refused where it has no steps to feed") {
  check_refusal(rewire_command({"bench", "vit_tiny_28", "--data", "--mode", "infer"}),
                "bench: --data feeds training steps: drop --mode infer");
  check_refusal(rewire_command({"bench", "--ranks", "--data"}),
                "bench --ranks: it takes no data: drop --data");
}

}  // namespace
}  // namespace rewire::test
