// rewire detect eval: its table, its JSON and its refusals.
#include <nlohmann/json.hpp>

#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

/// Two objects of 1600 square pixels; the detections hit one, with a miss before it.
class DetectionFiles {
 public:
  DetectionFiles() {
    write("a.json", R"({"images": [{"id": 7, "file_name": "x.jpg", "width": 640, "height": 480}],
      "annotations": [{"id": 1, "image_id": 7, "category_id": 3, "bbox": [0, 0, 40, 40], "area": 1600, "iscrowd": 0},
                      {"id": 2, "image_id": 7, "category_id": 3, "bbox": [100, 0, 40, 40], "area": 1600, "iscrowd": 0},
                      {"id": 3, "image_id": 7, "category_id": 3, "bbox": [200, 0, 99, 99], "area": 9801, "iscrowd": 1}],
      "categories": [{"id": 3, "name": "car"}, {"id": 5, "name": "cat"}]})");
    write("p.json", R"([{"image_id": 7, "category_id": 3, "bbox": [400, 0, 40, 40], "score": 0.9},
                        {"image_id": 7, "category_id": 3, "bbox": [100, 0, 40, 40], "score": 0.8}])");
  }
  std::string file(const std::string& name) const { return folder_.file(name); }
  void write(const std::string& name, const std::string& text) const { write_text(file(name), text); }
  Outcome eval(const Words& more = {}) const {
    return rewire_command(
        Words{"detect", "eval", "--annotations", file("a.json"), "--predictions", file("p.json")} + more);
  }

 private:
  TemporaryFolder folder_;
};

// Half of the objects, at precision 1/2: 51 of 101 recalls.
constexpr double kAp = .5 * 51 / 101;

TEST_CASE("detect eval prints COCO's twelve numbers") {
  const DetectionFiles files;
  const Outcome outcome = files.eval();
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  CHECK(outcome.out ==
        "images 1, categories 2, objects 2, crowds 1, detections 2\n"
        "\n"
        "metric  IoU        area    detections   value\n"
        "AP      0.50:0.95  all            100  0.2525\n"
        "AP50    0.50       all            100  0.2525\n"
        "AP75    0.75       all            100  0.2525\n"
        "APs     0.50:0.95  small          100       -\n"
        "APm     0.50:0.95  medium         100  0.2525\n"
        "APl     0.50:0.95  large          100       -\n"
        "AR1     0.50:0.95  all              1  0.0000\n"
        "AR10    0.50:0.95  all             10  0.5000\n"
        "AR100   0.50:0.95  all            100  0.5000\n"
        "ARs     0.50:0.95  small          100       -\n"
        "ARm     0.50:0.95  medium         100  0.5000\n"
        "ARl     0.50:0.95  large          100       -\n");
}

TEST_CASE("detect eval --json has null where no object counts") {
  const DetectionFiles files;
  const Outcome outcome = files.eval({"--json"});
  CHECK(outcome.code == 0);
  const auto values = nlohmann::ordered_json::parse(outcome.out);
  std::vector<std::string> names;
  for (const auto& [name, value] : values.items()) names.push_back(name);
  CHECK(names ==
        Words{"AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"});
  CHECK(values.at("AP").get<double>() == Approx(kAp).epsilon(1e-12));
  CHECK(values.at("APs").is_null());
  CHECK(values.at("ARl").is_null());
  CHECK(values.at("AR1") == 0);
  CHECK(values.at("ARm") == .5);
}

TEST_CASE("detect eval refuses what is no annotation or result in one line, with exit code 2") {
  const DetectionFiles files;
  const std::string predictions = read_text(files.file("p.json"));
  files.write("p.json", replaced(predictions, "\"image_id\": 7", "\"image_id\": 8"));
  check_refusal(files.eval(),
                files.file("p.json") +
                    ": [0] has image_id 8, which the annotations lack: give the annotations of these "
                    "images");
  files.write("p.json", replaced(predictions, "0.9", "NaN"));
  const Outcome outcome = files.eval();
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS("p.json is not valid JSON: [0], byte ") &&
                              REWIRE_CATCH_CONTAINS("NaN, Infinity and None are no values of JSON"));
  files.write("p.json", replaced(predictions, "\"category_id\": 3", "\"category_id\": 4"));
  const Outcome warned = files.eval({"--json"});
  CHECK(warned.code == 0);
  CHECK_THAT(warned.err, REWIRE_CATCH_CONTAINS("p.json: 1 of 2 detections do not count"));
  CHECK(Json::parse(warned.out).at("AP").get<double>() == Approx(2 * kAp).epsilon(1e-12));
  check_refusal(
      rewire_command({"detect", "eval", "--annotations", files.file("p.json"), "--predictions", "x.json"}),
      files.file("p.json") +
          " is a list, not COCO instance annotations, an object with the lists images, annotations and "
          "categories");
  check_refusal(rewire_command({"detect", "eval", "--annotations", files.file("a.json"), "--predictions",
                                files.file("none.json")}),
                "cannot read " + files.file("none.json") + ": No such file or directory");
  CHECK(rewire_command({"detect", "eval", "--annotations", files.file("a.json")}).code == 2);
}

}  // namespace
}  // namespace rewire::test
