// Which class an image is of: by the names that weights were trained with, by a class map, among those that are present.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/fixture.h"
#include "tests/runtime_data/image_tree.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

/// Four classes of four images, which a run has learnt; val has two of them.
class Animals : public ImageFileTree {
 public:
  Animals() {
    for (const char* name : {"ant", "bee", "cat", "dog"}) {
      for (const char* image : {"0", "1", "2", "3"})
        put(std::string("train/") + name + "/" + image + ".png",
            std::string(name) < "c" ? "png_grey" : "png_rgb");
    }
    put("val/bee/0.png", "png_grey");
    put("val/dog/0.png", "png_rgb");
    REQUIRE(
        rewire_command(Words{"train"} + kModel + data(path()) +
                       Words{"--set", "train.batch=4", "--set", "train.epochs=2", "--quiet", "--out", run()})
            .code == 0);
  }
  static Words data(const std::string& path) {
    return {"--set", "data.format=folder", "--set", "data.path=" + path,
            "--set", "model.classes=4",    "--set", "transforms.resize=bilinear"};
  }
  std::string run() const { return file("run"); }
  Outcome eval(const Words& more) const {
    return rewire_command(Words{"eval", run(), "--json", "--quiet"} + more);
  }
  Json printed(const Words& more) const {
    const Outcome outcome = eval(more);
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    return Json::parse(outcome.out);
  }
};

TEST_CASE("An evaluation tells classes by the names that weights learnt, by a class map, or by its labels") {
  const Animals animals;
  const Json whole = animals.printed({});
  // The same images in folders with other names and another order.
  const ImageFileTree other;
  other.put("val/1/0.png", "png_rgb");   // dog
  other.put("val/2/0.png", "png_grey");  // bee
  const Words moved = {"--set", "data.path=" + other.path()};
  const Outcome unknown = animals.eval(moved);
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err, REWIRE_CATCH_CONTAINS("its class '1' is not one of the 4 classes of the weights"));
  other.write("names.txt", "1\tdog\n2\tbee\n3\tant\n");
  other.write("labels.txt", "1\t3\n2\t1\n");
  for (const char* map : {"names.txt", "labels.txt"}) {
    CAPTURE(map);
    const Json mapped = animals.printed(moved + Words{"--set", "data.class_map=" + other.file(map)});
    CHECK(mapped.at("loss").get<double>() == Approx(whole.at("loss").get<double>()).epsilon(1e-6));
    CHECK(mapped.at("top1") == whole.at("top1"));
  }
  const Outcome by_label = rewire_command(Words{"eval", animals.run()} + moved +
                                          Words{"--set", "data.class_map=" + other.file("labels.txt")});
  CHECK_THAT(by_label.err,
             REWIRE_CATCH_CONTAINS("classes are compared by label only: the data set has no class names\n"));
}

TEST_CASE(
    "The best evaluation of other classes, or of other test images, is not compared with those that follow") {
  const Animals animals;
  const std::string run = animals.file("best");
  REQUIRE(rewire_command(Words{"train"} + kModel + Animals::data(animals.path()) +
                         Words{"--set", "train.batch=4", "--set", "train.epochs=1", "--set",
                               "train.patience=1", "--set", "eval.classes=present", "--quiet", "--out", run})
              .code == 0);
  const Outcome others = rewire_command({"train", "--resume", run, "--set", "eval.classes=all", "--set",
                                         "train.epochs=2", "--set", "train.patience=2"});
  CHECK(others.code == 0);
  CHECK_THAT(others.err, REWIRE_CATCH_CONTAINS("the best checkpoint was chosen by evaluations that differ "
                                               "from the coming ones: the next one is the best\n"));
  CHECK(metrics(run).back().at("epoch") == 1);
  animals.put("val/ant/0.png", "png_grey");
  const Outcome images = rewire_command({"train", "--resume", run, "--set", "train.epochs=3"});
  CHECK_THAT(
      images.err,
      REWIRE_CATCH_CONTAINS(
          "the test samples differ from those of the run's earlier evaluations (2 samples then, 3 now)\n"));
  CHECK_THAT(images.err, REWIRE_CATCH_CONTAINS("the next one is the best\n"));
}

TEST_CASE("Where only present classes compete, an evaluation says how many, and tells no less") {
  const Animals animals;
  const Json all = animals.printed({}), present = animals.printed({"--set", "eval.classes=present"});
  CHECK_FALSE(all.contains("classes"));
  CHECK(present.at("classes") == 2);
  CHECK(present.at("loss").get<double>() < all.at("loss").get<double>());
  const Outcome said = rewire_command({"eval", animals.run(), "--set", "eval.classes=present"});
  CHECK_THAT(said.err,
             REWIRE_CATCH_CONTAINS("2 of 4 classes have images and compete (eval.classes=present)\n"));
  CHECK_THAT(said.out, REWIRE_CATCH_CONTAINS(" on 2 samples of 2 classes\n"));
  // So does the evaluation of a run, of its averages too.
  const std::string run = animals.file("of_present");
  REQUIRE(
      rewire_command(Words{"train"} + kModel + Animals::data(animals.path()) +
                     Words{"--set", "train.batch=4", "--set", "train.epochs=1", "--set", "train.ema=0.5",
                           "--set", "eval.classes=present", "--set", "eval.knn=3", "--quiet", "--out", run})
          .code == 0);
  const Json last = metrics(run).back(),
             again = Json::parse(rewire_command({"eval", run, "--json", "--quiet"}).out);
  CHECK(again.at("loss") == last.at("loss"));
  CHECK(again.at("classes") == 2);
  CHECK(last.contains("knn_top1"));
  CHECK_FALSE(last.contains("knn_top5"));  // of four classes
  CHECK(Json::parse(rewire_command({"eval", run, "--ema", "--json", "--quiet"}).out).at("loss") ==
        last.at("ema_loss"));
}

TEST_CASE("Tables of runs that have seen other data say so") {
  const TemporaryFolder folder;
  const Words small =
      Words{"train"} + kModel + Words{"--set",       "data.format=synthetic", "--set",   "train.batch=8",
                                      "--set",       "train.epochs=1",        "--quiet", "--set",
                                      "eval.batch=8"};
  const std::string one = folder.file("one"), two = folder.file("two"), part = folder.file("part");
  REQUIRE(rewire_command(small + Words{"--set", "data.count=16", "--out", one}).code == 0);
  REQUIRE(rewire_command(small + Words{"--set", "data.count=24", "--out", two}).code == 0);
  REQUIRE(rewire_command(small +
                         Words{"--set", "data.count=16", "--set", "data.train_fraction=0.5", "--out", part})
              .code == 0);
  const std::string page = folder.file("page.html");
  const Outcome same = rewire_command({"report", one, part, "--output", page});
  CHECK(same.code == 0);
  CHECK(same.err.empty());  // the recipes say that one takes a part
  const Outcome mixed = rewire_command({"report", one, two, "--output", page});
  CHECK(mixed.code == 0);
  CHECK_THAT(mixed.err,
             REWIRE_CATCH_CONTAINS("trained on other data than one: two (16 samples there, 24 here)\n"));
  CHECK_THAT(mixed.err, REWIRE_CATCH_CONTAINS("evaluated on other data than one: two ("));
  CHECK_THAT(read_text(page), REWIRE_CATCH_CONTAINS("trained on other data than one: two"));
  CHECK(Json::parse(rewire_command({"report", one, two, "--json"}).out).at("mixed_data").size() == 2);
  std::filesystem::remove_all(two + "/checkpoints");
  CHECK_THAT(rewire_command({"report", one, two, "--output", page}).err,
             REWIRE_CATCH_CONTAINS("no intact checkpoint records which data they have seen: two\n"));
}

TEST_CASE(
    "A sweep whose data have changed since its first runs says so, in the terminal and below its table") {
  const TemporaryFolder folder;
  const ImageFileTree tree;
  for (const char* path :
       {"train/a/0.png", "train/a/1.png", "train/b/0.png", "train/b/1.png", "val/a/0.png", "val/b/0.png"})
    tree.put(path, "png_grey");
  const auto sweep = [&](const std::string& seeds) {
    runtime::write_file_atomically(
        folder.file("recipe.toml"),
        "[model]\nname = \"vit_tiny_28\"\ndim = 8\ndepth = 1\nheads = 2\npatch = 14\nclasses = 2\n"
        "[data]\nformat = \"folder\"\npath = \"" +
            tree.path() +
            "\"\n"
            "[transforms]\nresize = \"bilinear\"\n[train]\nbatch = 2\nepochs = 1\n");
    const std::string file = folder.file("sweep.toml");
    runtime::write_file_atomically(file, "recipe = \"recipe.toml\"\nseeds = [" + seeds + "]\n");
    return rewire_command({"sweep", file, "--out", folder.file("out"), "--quiet"});
  };
  const Outcome first = sweep("0");
  INFO(first.err);
  REQUIRE(first.code == 0);
  CHECK(first.out.find("data: ") == std::string::npos);
  tree.put("train/b/2.png", "png_grey");
  const Outcome second = sweep("0, 1");
  CHECK(second.code == 0);
  CHECK_THAT(second.out, REWIRE_CATCH_CONTAINS("data: trained on other data than ") &&
                             REWIRE_CATCH_CONTAINS("(4 samples there, 5 here)\n"));
  CHECK_THAT(read_text(folder.file("out/table.md")), REWIRE_CATCH_CONTAINS("Data: trained on"));
}

}  // namespace
}  // namespace rewire::test
