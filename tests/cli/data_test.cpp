// rewire data: what is said of a data set, and what is drawn of its images and transforms.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "runtime/data/vision/image_file.h"
#include "runtime/data/vision/png_file.h"
#include "runtime/io/files.h"
#include "tests/cli/fixture.h"
#include "tests/runtime_data/idx_files.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

using nlohmann::json;

/// MNIST's files of one split: images of 3 x 5, each of the one level that its place gives, labels in turns of two.
void write_split(const TemporaryFolder& folder, const std::string& split, int count, int first_level) {
  std::string images = idx_header({static_cast<std::uint32_t>(count), 3, 5});
  std::string labels = idx_header({static_cast<std::uint32_t>(count)});
  for (int i = 0; i < count; ++i) {
    images += std::string(15, static_cast<char>(first_level + i));
    labels += static_cast<char>(i % 2);
  }
  write_text(folder.file(split + "-images-idx3-ubyte"), images);
  write_text(folder.file(split + "-labels-idx1-ubyte"), labels);
}

runtime::DrawnImage picture(const std::string& file, std::int64_t channels) {
  runtime::DrawnImage image{channels, 0, 0, {}};
  const runtime::ImageSize size =
      runtime::decode_image(runtime::read_file(file), file, channels, image.pixels);
  image.height = size.height;
  image.width = size.width;
  return image;
}

TEST_CASE("data info says what the splits hold, and draws a row of images a class") {
  const TemporaryFolder folder;
  const std::string path = folder.path().string(), sheet = folder.file("sheet.png");
  write_split(folder, "train", 4, 10);
  const Outcome outcome = rewire_command({"data", "info", path, "--format", "idx", "--output", sheet});
  CHECK(outcome.code == 1);
  CHECK(outcome.err == "rewire: " + path + ": the test split cannot be opened\n");
  // The levels 10, 11, 12, 13 over 255: mean 11.5 / 255, deviation sqrt(1.25) / 255.
  CHECK(outcome.out ==
        path + ": idx\ntrain: " + path +
            "\n"
            "  images      4\n"
            "  classes     2 of 2 images each\n"
            "  sizes       all 3 x 5 (height x width)\n"
            "  pixels      mean = [0.0451]\n"
            "              std = [0.0044]\n"
            "  duplicates  none\n"
            "test: cannot be opened: cannot find " +
            path +
            "/t10k-images-idx3-ubyte or t10k-images-idx3-ubyte.gz; set data.path to the folder "
            "that holds it\n" +
            sheet + ": images of train, one class per row, from the top:\n  0, 1\n");
  const runtime::DrawnImage drawn = picture(sheet, 1);
  CHECK(drawn.height == 2 * 100 + 4);
  CHECK(drawn.width == 8 * 100 + 4);
  CHECK(drawn.pixels[static_cast<std::size_t>(52 * drawn.width + 152)] == 12);  // class 0's second

  write_split(folder, "t10k", 3, 12);
  const Words both = {"data", "info", path, "--format", "idx"};
  const json object = json::parse(rewire_command(both + Words{"--json", "--threads", "3"}).out);
  CHECK(object.at("format") == "idx");
  REQUIRE(object.at("splits").size() == 2);
  CHECK(object.at("splits").at(1).at("images") == 3);
  CHECK(object.at("splits").at(1).at("classes").at(0) == json({{"label", 0}, {"images", 2}}));
  CHECK(object.at("splits").at(0).at("mean").at(0).get<double>() == Approx(11.5 / 255).epsilon(1e-14));
  CHECK(object.at("in_both").at("images") == 2);
  CHECK(object.at("in_both").at("first").at(0) ==
        json({{"image", path + ": image 0"}, {"earlier", path + ": image 2"}}));
  const std::string text = rewire_command(both).out;
  CHECK_THAT(text,
             REWIRE_CATCH_CONTAINS("\nin both: 2 test images equal a training image, 0 of them with another "
                                   "label\n              " +
                                   path + ": image 0 = " + path + ": image 2\n"));
  CHECK_THAT(text, REWIRE_CATCH_CONTAINS(
                       "classes     2; the smallest is 1 with 1 image, the largest 0 with 2 images\n"));
  CHECK_THAT(rewire_command(both + Words{"--images", "2"}).out,
             REWIRE_CATCH_CONTAINS("  images      4, 2 of them examined\n"));
}

TEST_CASE("data info ends with 1 where images cannot be read, and still says all else") {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  for (const char* split : {"train", "val"}) std::filesystem::create_directories(folder.file(split) + "/cat");
  const auto png = runtime::encode_png({3, 1, 2, {51, 51, 102, 102, 0, 0}});
  runtime::write_file_atomically(folder.file("train/cat/a.png"), png);
  runtime::write_file_atomically(folder.file("val/cat/b.png"), png);
  write_text(folder.file("train/cat/bad.png"), "no image");
  const Outcome outcome = rewire_command({"data", "info", path, "--format", "folder"});
  CHECK(outcome.code == 1);
  CHECK(outcome.err == "rewire: " + path + ": 1 image cannot be read\n");
  CHECK_THAT(outcome.out, REWIRE_CATCH_CONTAINS("  pixels      mean = [0.2000, 0.4000, 0.0000]\n") &&
                              REWIRE_CATCH_CONTAINS("  unreadable  1\n              " + path +
                                                    "/train/cat/bad.png: neither JPEG nor PNG\n") &&
                              REWIRE_CATCH_CONTAINS("\nin both: 1 test image equals a training image, "));
}

void check_refused_data(const Words& words, const std::string& message) {
  const Outcome outcome = rewire_command(Words{"data"} + words);
  CAPTURE(outcome.err);
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS("rewire: " + message));
}

TEST_CASE("What the data commands are asked in vain is refused in one line") {
  const TemporaryFolder folder;
  const std::string path = folder.path().string(), output = folder.file("x.png");
  check_refused_data({"info", path}, path + ": cannot tell the format of the data there: give one of idx|");
  check_refused_data({"info", "/nowhere"}, "/nowhere: No such file or directory\n");
  check_refused_data({"info", path, "--format", "idxx"}, "--format=idxx is unknown: it takes one of idx|");
  check_refused_data({"info", path, "--format", "synthetic"},
                     "data info: the format synthetic has no data.path, so there is nothing to examine\n");
  check_refused_data({"info", path, "--format", "idx", "--set", "model.dim=3"},
                     "data info: --set takes data.key=value, not 'model.dim=3'\n");
  check_refused_data({"info", path, "--set", "data.path=y"},
                     "data info: use PATH and --format instead of --set data.path=y\n");
  check_refused_data({"info", path, "--format", "idx", "--set", "data.threads=3"},
                     "data info: --set data.threads=3 has no effect: the format idx has no such keys\n");
  check_refused_data({"info", path, "--format", "cifar", "--set", "data.prefetch=3"},
                     "data info: --set data.prefetch=3 has no effect: the format cifar has data.labels\n");
  check_refused_data({"info", path, "--format", "idx", "--output", "/nowhere/x.png"},
                     "cannot write /nowhere/x.png");
  check_refused_data({"info", path, "--format", "idx"}, "cannot find " + path + "/train-images-idx3-ubyte");
  const std::string image = folder.file("image.png");
  write_text(image, "");
  check_refused_data({"try", image, "--output", image}, "--output " + image + " is also an input");
  check_refused_data({"try", image, "--output", output}, image + ": the file is empty\n");
  check_refused_data({"try", path + "/no.png", "--output", output}, "cannot read " + path + "/no.png");
  check_refused_data({"preview", "vit_tiny_28", "--output", output, "--set", "data.format=synthetic", "--set",
                      "data.count=9", "--split", "test", "--batch", "1"},
                     "data preview: --batch 1: the test split has 1 batches of 9 images, counted from 0\n");
  check_refused_data({"try", image, "--output", output, "--size", "8193"},
                     "data try: --size 8193: at most 8192\n");
  CHECK(
      rewire_command({"data"}).err.starts_with("rewire: 'data' needs a second word: there are data info, "));
  CHECK(rewire_command({"data", "inof"})
            .err.starts_with(
                "rewire: unknown command 'data inof' (did you mean 'info'?); there are data info, "));
  CHECK(folder.entries() == 1);
}

TEST_CASE("data preview draws a batch and says what it shows") {
  const TemporaryFolder folder;
  const std::string output = folder.file("page.png");
  const Words preview =
      Words{"data", "preview"} + kModel + Words{"--set", "data.format=synthetic", "--set",    "data.count=64",
                                                "--set", "train.batch=10",        "--output", output};
  const Outcome first = rewire_command(preview + Words{"--images", "9"});
  CHECK(first.code == 0);
  CHECK(first.err.empty());
  CHECK_THAT(first.out,
             REWIRE_CATCH_CONTAINS(
                 output + ": batch 0 of epoch 0, 9 train images of 10, 8 per row\nrow  column  class\n"));
  const std::vector<std::byte> bytes = runtime::read_file(output);
  const runtime::DrawnImage drawn = picture(output, 1);
  CHECK(drawn.height == 2 * (4 * 28 + 4) + 4);
  CHECK(drawn.width == 8 * (4 * 28 + 4) + 4);
  CHECK(rewire_command(preview + Words{"--images", "9"}).out == first.out);
  CHECK(runtime::read_file(output) == bytes);

  // 6 batches an epoch.
  const json later = json::parse(rewire_command(preview + Words{"--batch", "8", "--json"}).out);
  CHECK(later.at("epoch") == 1);
  CHECK(later.at("batch") == 2);
  CHECK(later.at("images").size() == 10);
  CHECK(later.at("images").at(0).at(0).at("probability") == 1);
  const json mixed = json::parse(rewire_command(preview + Words{"--json", "--set", "transforms.mixup=1",
                                                                "--set", "objective.targets=probabilities"})
                                     .out);
  CHECK(mixed.at("images").at(0).size() == 2);
  // Evaluation goes in order, and the synthetic set's classes take turns.
  const json test = json::parse(
      rewire_command(preview + Words{"--split", "test", "--set", "eval.batch=60", "--batch", "1", "--json"})
          .out);
  REQUIRE(test.at("images").size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(test.at("images").at(i).at(0).at("label") == i);
}

TEST_CASE("data try draws an image and what transforms make of it") {
  const TemporaryFolder folder;
  const std::string image = folder.file("image.png"), output = folder.file("strip.png");
  runtime::write_file_atomically(image, runtime::encode_png({3, 1, 2, {9, 18, 27, 36, 45, 54}}));
  const Words tried = {
      "data",    "try", image,    "--output", output, "--set", "transforms.horizontal_flip=true",
      "--count", "10",  "--seed", "1"};
  const Outcome outcome = rewire_command(tried);
  CHECK(outcome.code == 0);
  CHECK(outcome.out == output + ": " + image + " (1 x 2), and 10 draws of its transforms\n");
  const runtime::DrawnImage drawn = picture(output, 3);
  CHECK(drawn.height == 2 * (48 + 4) + 4);  // 48 times 1 x 2
  CHECK(drawn.width == 9 * (96 + 4) + 4);
  CHECK(drawn.pixels[static_cast<std::size_t>(28 * drawn.width + 20)] == 9);
  CHECK(drawn.pixels[static_cast<std::size_t>(28 * drawn.width + 80)] == 18);
  const std::vector<std::byte> bytes = runtime::read_file(output);
  const json object = json::parse(rewire_command(tried + Words{"--json"}).out);
  CHECK(object.at("draws") == 10);
  CHECK(object.at("original") == json({{"file", image}, {"height", 1}, {"width", 2}}));
  CHECK(object.at("width") == drawn.width);
  CHECK(runtime::read_file(output) == bytes);
}

/// The files of a data set of two classes, the first two of train damaged below their upper half.
void write_folder(const TemporaryFolder& folder, std::initializer_list<const char*> damaged) {
  for (const char* split : {"train", "val"}) {
    for (int i = 0; i < 6; ++i) {
      std::vector<std::uint8_t> pixels;
      for (int p = 0; p < 3 * 20 * 16; ++p) pixels.push_back(static_cast<std::uint8_t>(p * (i + 3) % 253));
      const std::string path = folder.file(fmt::format("{}/{}/{}.png", split, i % 2 == 0 ? "cat" : "dog", i));
      std::filesystem::create_directories(std::filesystem::path(path).parent_path());
      runtime::write_file_atomically(path, runtime::encode_png({3, 20, 16, pixels}));
    }
  }
  for (const char* name : damaged) write_text(folder.file(name), "no image");
}

TEST_CASE(
    "Images that cannot be read are left out of training, evaluation, previews and benches where they may "
    "be") {
  const TemporaryFolder folder;
  write_folder(folder, {"train/cat/2.png", "val/dog/1.png"});
  const Words settings = {"--set", "data.format=folder",
                          "--set", "data.path=" + folder.path().string(),
                          "--set", "transforms.resize=bilinear",
                          "--set", "model.channels=3",
                          "--set", "model.depth=1",
                          "--set", "model.classes=2",
                          "--set", "train.batch=4",
                          "--set", "eval.batch=6"};
  const Words skip = {"--set", "data.unreadable=skip"};
  const auto train = [&](const std::string& run, const Words& more) {
    return rewire_command(Words{"train", "vit_tiny_28", "--out", folder.file(run), "--quiet", "--json",
                                "--set", "train.epochs=2"} +
                          settings + more);
  };
  const Outcome strict = train("strict", {});
  CHECK(strict.code == 2);
  CHECK_THAT(strict.err, REWIRE_CATCH_CONTAINS("neither JPEG nor PNG"));
  const Outcome left_out = train("left_out", skip);
  CAPTURE(left_out.err);
  REQUIRE(left_out.code == 0);
  CHECK(json::parse(left_out.out).at("unreadable_samples") == 2);
  CHECK(json::parse(left_out.out).at("data_wait_seconds").get<double>() >= 0);
  const Outcome cached =
      train("cached", skip + Words{"--set", "data.cache=" + folder.file("cache"), "--set", "data.threads=3"});
  REQUIRE(cached.code == 0);
  CHECK(runtime::read_file(folder.file("cached/weights.safetensors")) ==
        runtime::read_file(folder.file("left_out/weights.safetensors")));
  const Outcome eval = rewire_command({"eval", folder.file("left_out"), "--json"});
  REQUIRE(eval.code == 0);
  CHECK(json::parse(eval.out).at("samples") == 5);
  const Outcome preview = rewire_command(Words{"data", "preview", "vit_tiny_28", "--split", "test",
                                               "--output", folder.file("page.png"), "--json"} +
                                         settings + skip);
  CAPTURE(preview.err);
  REQUIRE(preview.code == 0);
  CHECK(json::parse(preview.out).at("images").size() == 6);
  const Outcome bench = rewire_command(
      Words{"data", "bench", "vit_tiny_28", "--seconds", "1", "--threads", "2"} + settings + skip);
  CAPTURE(bench.err);
  CHECK(bench.code == 0);
  CHECK(rewire_command(Words{"data", "bench", "vit_tiny_28", "--threads", "257"} + settings).code == 2);
}

TEST_CASE("What a data set's folders hold beside it is said by data info, and when training starts") {
  const TemporaryFolder folder;
  write_folder(folder, {"train/cat/a.heic", "train/dog/b.webp", "train/dog/c.WEBP", "val/dog/d.avif"});
  std::filesystem::create_directories(folder.file("train/__MACOSX"));
  const std::string path = folder.path().string();
  const std::string images = "files that look like images but are left out: ",
                    end = "; only JPEG and PNG files are read";
  const Outcome info = rewire_command({"data", "info", path});
  CHECK(info.code == 0);
  CHECK_THAT(info.out,
             REWIRE_CATCH_CONTAINS("\n  left out    " + images + "1 .heic, 2 .webp" + end +
                                   "\n  left out    folders that are not classes: 1 (__MACOSX)\n") &&
                 REWIRE_CATCH_CONTAINS("\n  left out    " + images + "1 .avif" + end + "\n"));
  const json object = json::parse(rewire_command({"data", "info", path, "--json"}).out);
  CHECK(object.at("splits").at(0).at("left_out").size() == 2);
  CHECK(object.at("splits").at(1).at("turned_by_exif") == 0);

  const Words train =
      Words{"train", "vit_tiny_28", "--out", folder.file("run")} +
      Words{
          "--set", "data.format=folder", "--set", "data.path=" + path, "--set", "transforms.resize=bilinear",
          "--set", "model.channels=3",   "--set", "model.depth=1",     "--set", "model.classes=2",
          "--set", "train.batch=6",      "--set", "train.max_steps=1"};
  const Outcome trained = rewire_command(train);
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  const std::string log = read_text(folder.file("run/log.txt"));
  for (const std::string& line : {"warning: " + path + "/train: " + images + "1 .heic, 2 .webp" + end,
                                  "warning: " + path + "/train: folders that are not classes: 1 (__MACOSX)",
                                  "warning: " + path + "/val: " + images + "1 .avif" + end}) {
    CAPTURE(line, log);
    const std::size_t at = log.find(line);
    REQUIRE(at != std::string::npos);
    CHECK(log.find(line, at + 1) == std::string::npos);
  }
  CHECK_THAT(trained.err, REWIRE_CATCH_CONTAINS("1 .heic, 2 .webp"));
}

TEST_CASE("A cache of decoded images that is cut while a run trains ends it with a line") {
  const TemporaryFolder folder;
  write_folder(folder, {});
  RunningCommand running(Words{"train", "vit_tiny_28", "--out", folder.file("run"), "--quiet"} +
                         Words{"--set", "data.format=folder",
                               "--set", "data.path=" + folder.path().string(),
                               "--set", "transforms.resize=bilinear",
                               "--set", "model.channels=3",
                               "--set", "model.depth=1",
                               "--set", "model.classes=2",
                               "--set", "train.batch=6",
                               "--set", "train.epochs=1000000",
                               "--set", "train.checkpoint_every=1000000",
                               "--set", "data.cache=" + folder.file("cache")});
  const std::string metrics = folder.file("run/metrics.jsonl");
  while (running.running() && !std::filesystem::exists(metrics))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("cache")))
    std::filesystem::resize_file(entry.path(), 0);
  const Outcome outcome = running.wait();
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err,
             REWIRE_CATCH_CONTAINS(
                 ".images: the decoded images have changed since they were opened: run the command again\n"));
}

TEST_CASE("Where no test image can be read, that is what is said") {
  const TemporaryFolder folder;
  write_folder(folder, {"val/cat/0.png", "val/dog/1.png", "val/cat/2.png", "val/dog/3.png", "val/cat/4.png",
                        "val/dog/5.png"});
  const Outcome outcome = rewire_command({"train",
                                          "vit_tiny_28",
                                          "--out",
                                          folder.file("run"),
                                          "--quiet",
                                          "--set",
                                          "train.epochs=1",
                                          "--set",
                                          "data.format=folder",
                                          "--set",
                                          "data.path=" + folder.path().string(),
                                          "--set",
                                          "transforms.resize=bilinear",
                                          "--set",
                                          "model.channels=3",
                                          "--set",
                                          "model.depth=1",
                                          "--set",
                                          "train.batch=4",
                                          "--set",
                                          "data.unreadable=skip"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err,
             REWIRE_CATCH_CONTAINS("none of the test samples can be read, so nothing can be evaluated"));
}

}  // namespace
}  // namespace rewire::test
