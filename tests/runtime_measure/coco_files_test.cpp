// COCO's two files: what is read of them, and the one line for each thing that is wrong.
#include <nlohmann/json.hpp>
#include <string>

#include "ir/error.h"
#include "runtime/data/vision/coco_annotations.h"
#include "runtime/device/log.h"
#include "runtime/io/files.h"
#include "runtime/measure/coco_detections.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

using nlohmann::json;
using runtime::ObjectAnnotations;

/// Two images, the first without objects; ids with gaps, in no order; the objects before what they refer to.
const std::string kAnnotations = R"({
  "info": {"images": [{"id": 1}], "annotations": 7, "deep": [[[{"bbox": null}]]]},
  "annotations": [
    {"id": 12, "image_id": 9, "category_id": 90, "bbox": [1.5, 2, 30, 40.25], "area": 700.5, "iscrowd": 0,
     "segmentation": [[1, 2, 3, 4.5]], "extra": {"area": -1, "bbox": []}},
    {"id": 5, "image_id": 4, "category_id": 3, "bbox": [0, 0, 0, 7], "area": 0, "iscrowd": true,
     "segmentation": {"counts": [1, 2], "size": [3, 4]}},
    {"iscrowd": 1, "area": 9, "bbox": [-1, -2, 3, 3], "category_id": 3, "image_id": 9, "id": -3}],
  "images": [
    {"id": 9, "file_name": "b.jpg", "width": 640, "height": 480},
    {"id": 2, "file_name": "ä \"x\".jpg", "width": 1, "height": 2},
    {"id": 4, "file_name": "train/c.jpg", "width": 30, "height": 20}],
  "licenses": [],
  "categories": [{"id": 90, "name": "toothbrush", "supercategory": "indoor"}, {"id": 3, "name": "car"}]
})";

const std::string kResults =
    R"([{"image_id": 9, "category_id": 3, "bbox": [1, 2, 3, 4.5], "score": 0.5, "segmentation": {"counts": "x"}},
        {"image_id": 2, "category_id": 90, "bbox": [1, 2, 3, 4], "score": 1}])";

std::string replace(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

class Files {
 public:
  ObjectAnnotations annotations(const std::string& text = kAnnotations) const {
    runtime::write_file_atomically(folder_.file("a.json"), text);
    return runtime::read_coco_annotations(folder_.file("a.json"));
  }
  std::vector<runtime::Detection> results(const std::string& text) const {
    const ObjectAnnotations of = annotations();
    runtime::write_file_atomically(folder_.file("p.json"), text);
    return runtime::read_coco_detections(folder_.file("p.json"), of);
  }
  /// The message without the folder's name.
  std::string refused(const std::string& text) const {
    return local(message_of<UserError>([&] { annotations(text); }));
  }
  std::string refused_results(const std::string& text) const {
    return local(message_of<UserError>([&] { results(text); }));
  }
  std::string local(std::string message) const {
    const std::string folder = folder_.path().string() + "/";
    for (std::size_t at = 0; (at = message.find(folder)) != std::string::npos;)
      message.erase(at, folder.size());
    return message;
  }

 private:
  TemporaryFolder folder_;
};

TEST_CASE("annotations are sorted by id, objects by image, and refer by index") {
  const ObjectAnnotations read = Files().annotations();
  REQUIRE(read.images.size() == 3);
  CHECK(read.images[0].id == 2);
  CHECK(read.images[0].file_name == "ä \"x\".jpg");
  CHECK(read.images[1].file_name == "train/c.jpg");
  CHECK(read.images[1].width == 30);
  CHECK(read.images[1].height == 20);
  REQUIRE(read.categories.size() == 2);
  CHECK(read.categories[0].name == "car");
  CHECK(read.categories[1].id == 90);
  CHECK(read.of_image(0).empty());
  REQUIRE(read.of_image(1).size() == 1);
  CHECK(read.of_image(1)[0].is_crowd);
  REQUIRE(read.of_image(2).size() == 2);
  const runtime::ObjectAnnotation& object = read.of_image(2)[0];  // in the file's order
  CHECK(object.id == 12);
  CHECK(object.image == 2);
  CHECK(object.category == 1);
  CHECK(object.box == runtime::ObjectBox{1.5, 2, 30, 40.25});
  CHECK(object.area == 700.5);
  CHECK_FALSE(object.is_crowd);
  CHECK(read.of_image(2)[1].id == -3);
  CHECK(read.of_image(2)[1].is_crowd);
}

TEST_CASE("lists may be empty") {
  const ObjectAnnotations read =
      Files().annotations(R"({"images": [], "annotations": [], "categories": []})");
  CHECK(read.images.empty());
  CHECK(read.objects.empty());
  CHECK(read.first == std::vector<std::size_t>{0});
  CHECK(Files().results("[]").empty());
}

TEST_CASE("a file longer than a block is read whole") {
  json document = json::parse(kAnnotations);
  for (int i = 0; i < 20'000; ++i)
    document["annotations"].push_back({{"id", 100 + i},
                                       {"image_id", i % 2 == 0 ? 2 : 4},
                                       {"category_id", 3},
                                       {"bbox", {i, 1, 2, 3}},
                                       {"area", 6},
                                       {"iscrowd", 0}});
  const ObjectAnnotations read = Files().annotations(document.dump());
  REQUIRE(read.of_image(0).size() == 10'000);
  for (std::size_t i = 0; i < 10'000; ++i) REQUIRE(read.of_image(0)[i].box.x == static_cast<double>(2 * i));
}

TEST_CASE("what annotations are refused for is one line with the place") {
  const Files files;
  const auto with = [&](const std::string& from, const std::string& to) {
    return files.refused(replace(kAnnotations, from, to));
  };
  const std::string format =
      "COCO instance annotations, an object with the lists images, annotations and categories";
  CHECK(with("\"image_id\": 4", "\"image_id\": 5") ==
        "a.json: annotations[1] has image_id 5, which images lacks: add it there or remove the annotation");
  CHECK(with("\"category_id\": 90", "\"category_id\": 91") ==
        "a.json: annotations[0] has category_id 91, which categories lacks: add it there or remove the "
        "annotation");
  CHECK(with("{\"id\": 4", "{\"id\": 9") ==
        "a.json: images[2] has the id 9 of images[0]: give each an id of its own");
  CHECK(with("\"id\": -3", "\"id\": 12") ==
        "a.json: annotations[2] has the id 12 of annotations[0]: give each an id of its own");
  CHECK(with("{\"id\": 3, \"name\"", "{\"id\": 90, \"name\"") ==
        "a.json: categories[1] has the id 90 of categories[0]: give each an id of its own");
  CHECK(with("[0, 0, 0, 7]", "[0, 0, -1, 7]") ==
        "a.json: annotations[1] has the bbox [0, 0, -1, 7]: give x, y, width and height, the last two at "
        "least 0");
  CHECK(with("[0, 0, 0, 7]", "[0, 0, 1e200, 1e200]") ==
        "a.json: annotations[1] has the bbox [0, 0, 1e+200, 1e+200]: give x, y, width and height, the last "
        "two at "
        "least 0");
  for (const std::string other : {"[0, 0, 7]", "[0, 0, 1, 7, 8]", "[0, 0, null, 7]", "[[0, 0, 1, 7]]", "7",
                                  "{}", "\"x\"", "null", "[0, 0, {\"a\": 1}, 7]"}) {
    CAPTURE(other);
    CHECK(with("[0, 0, 0, 7]", other) == "a.json: annotations[1].bbox is not a list of 4 numbers");
  }
  CHECK(with("\"area\": 700.5", "\"area\": -1") == "a.json: annotations[0] has the area -1: at least 0");
  CHECK(with("\"area\": 700.5", "\"area\": \"1\"") == "a.json: annotations[0].area is not a number");
  CHECK(with("\"iscrowd\": 0", "\"iscrowd\": 2") == "a.json: annotations[0].iscrowd is not 0 or 1");
  CHECK(with("\"image_id\": 4", "\"image_id\": 4.5") ==
        "a.json: annotations[1].image_id is not a whole number");
  CHECK(with("\"image_id\": 4", "\"image_id\": 18446744073709551615") ==
        "a.json: annotations[1].image_id is not a whole number");
  CHECK(with("\"width\": 30", "\"width\": 0") == "a.json: images[2] has width 0: at least 1");
  CHECK(with("\"file_name\": \"b.jpg\"", "\"file_name\": 3") == "a.json: images[0].file_name is not text");
  CHECK(with("\"area\": 700.5", "\"Area\": 700.5") == "a.json: annotations[0] has no \"area\"");
  CHECK(with("\"area\": 700.5", "\"area\": 1, \"area\": 700.5") ==
        "a.json: annotations[0] has \"area\" twice");
  CHECK(with("\"licenses\": []", "\"images\": []") == "a.json has the list \"images\" twice: give " + format);
  CHECK(with("\"categories\"", "\"Categories\"") == "a.json has no list \"categories\": give " + format);
  CHECK(files.refused("{\"images\": {}}") == "a.json: images is an object, not a list: give " + format);
  CHECK(files.refused("{\"images\": [3]}") == "a.json: images[0] is a number, not an object");
  CHECK(files.refused("{\"images\": [[]]}") == "a.json: images[0] is a list, not an object");
  CHECK(files.refused("{}") == "a.json has no list \"images\": give " + format);
  CHECK(files.refused("[]") == "a.json is a list, not " + format);
  CHECK(files.refused("null") == "a.json is null, not " + format);
}

TEST_CASE("a file that is not JSON is refused with the place") {
  const Files files;
  CHECK_THAT(files.refused(""),
             REWIRE_CATCH_CONTAINS("a.json is not valid JSON: byte 1: unexpected end of input"));
  CHECK_THAT(files.refused(kAnnotations + "]"), REWIRE_CATCH_CONTAINS("a.json is not valid JSON: byte "));
  CHECK_THAT(files.refused(kAnnotations.substr(0, kAnnotations.find("\"area\": 9"))),
             REWIRE_CATCH_CONTAINS("a.json is not valid JSON: annotations[2], byte "));
  CHECK_THAT(
      files.refused("{\"images\": [{\"id\": 1, \"file_name\": \"COCO_TRAIN"),
      REWIRE_CATCH_CONTAINS("a.json is not valid JSON: images[0], byte ") && !REWIRE_CATCH_CONTAINS("NaN"));
  CHECK_THAT(files.refused(replace(kAnnotations, "[0, 0, 0, 7]", "[0, 0, 1e400, 7]")),
             REWIRE_CATCH_CONTAINS("a.json: annotations[1], byte ") &&
                 REWIRE_CATCH_CONTAINS(": the number 1e400 is too large"));
  for (const std::string word : {"NaN", "Infinity", "-Infinity"}) {
    CAPTURE(word);
    CHECK_THAT(files.refused(replace(kAnnotations, "[0, 0, 0, 7]", "[0, 0, " + word + ", 7]")),
               REWIRE_CATCH_CONTAINS("a.json is not valid JSON: annotations[1], byte ") &&
                   REWIRE_CATCH_CONTAINS(": NaN, Infinity and None are no values of JSON"));
  }
  CHECK_THAT(files.refused(replace(kAnnotations, "b.jpg", "\xff.jpg")),
             REWIRE_CATCH_CONTAINS("a.json is not valid JSON: images[0], byte "));
  CHECK(files.refused(std::string("{\0}", 3)) == "a.json is not valid JSON: byte 2 is NUL");
  CHECK_THAT(files.refused(std::string(100'000, '[')), REWIRE_CATCH_CONTAINS("a.json is a list, not COCO"));
  CHECK_THAT(files.refused("{\"info\": " + std::string(100'000, '[')),
             REWIRE_CATCH_CONTAINS(": it is more than 64 levels deep"));
  CHECK(files.local(message_of<UserError>([&] { runtime::read_coco_annotations("/nowhere/a.json"); })) ==
        "cannot read /nowhere/a.json: No such file or directory");
  CHECK(message_of<UserError>([&] { runtime::read_coco_annotations("/"); }) ==
        "cannot read /: Is a directory");
}

TEST_CASE("results refer to the annotations by index; other categories are left out with one warning") {
  const Files files;
  std::vector<std::string> warnings;
  const runtime::LogListener listener([&](runtime::LogLevel level, std::string_view message) {
    if (level == runtime::LogLevel::warning) warnings.emplace_back(message);
  });
  const std::vector<runtime::Detection> read = files.results(kResults);
  REQUIRE(read.size() == 2);
  CHECK(read[0].image == 2);
  CHECK(read[0].category == 0);
  CHECK(read[0].box == runtime::ObjectBox{1, 2, 3, 4.5});
  CHECK(read[0].score == 0.5);
  CHECK(read[1].image == 0);
  CHECK(read[1].category == 1);
  CHECK(warnings.empty());
  CHECK(files.results(replace(kResults, "\"category_id\": 90", "\"category_id\": 91")).size() == 1);
  REQUIRE(warnings.size() == 1);
  CHECK(files.local(warnings[0]) ==
        "p.json: 1 of 2 detections do not count, because the annotations lack their categories; the first: "
        "[1] has "
        "category_id 91");
}

TEST_CASE("what results are refused for is one line with the place") {
  const Files files;
  const auto with = [&](const std::string& from, const std::string& to) {
    return files.refused_results(replace(kResults, from, to));
  };
  CHECK(with("\"image_id\": 2", "\"image_id\": 3") ==
        "p.json: [1] has image_id 3, which the annotations lack: give the annotations of these images");
  CHECK(with("[1, 2, 3, 4]", "[1, 2, 3, -4]") ==
        "p.json: [1] has the bbox [1, 2, 3, -4]: give x, y, width and height, the last two at least 0");
  CHECK(with("\"score\": 1", "\"score\": null") == "p.json: [1].score is not a number");
  CHECK(with("\"score\": 0.5, ", "") == "p.json: [0] has no \"score\"");
  CHECK_THAT(with("0.5", "NaN"), REWIRE_CATCH_CONTAINS("p.json is not valid JSON: [0], byte "));
  CHECK(files.refused_results(kAnnotations) ==
        "p.json is an object, not COCO results, a list of {image_id, category_id, bbox, score}");
  CHECK(files.refused_results("[[1, 2]]") == "p.json: [0] is a list, not an object");
  CHECK_THAT(files.refused_results(kResults + kResults),
             REWIRE_CATCH_CONTAINS("p.json is not valid JSON: byte "));
}

}  // namespace
}  // namespace rewire::test
