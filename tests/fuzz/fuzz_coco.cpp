// COCO's annotations and results on any bytes: what is accepted refers to images and categories that are there, and
// can be evaluated.
#include <string>
#include <string_view>

#include "runtime/data/vision/coco_annotations.h"
#include "runtime/measure/coco_detections.h"
#include "tests/fuzz/fuzz_folder.h"

namespace {

using namespace rewire;

constexpr std::string_view kAnnotations =
    R"({"images":[{"id":2,"file_name":"a","width":9,"height":9},{"id":1,"file_name":"b","width":9,"height":9}],)"
    R"("annotations":[{"id":1,"image_id":1,"category_id":7,"bbox":[0,0,5,5],"area":25,"iscrowd":0}],)"
    R"("categories":[{"id":7,"name":"c"}]})";

void evaluate(const runtime::ObjectAnnotations& annotations,
              const std::vector<runtime::Detection>& detections) {
  for (const double value : runtime::average_precision(annotations, detections))
    test::require(value == -1 || (value >= 0 && value <= 1));
}

void read_annotations(const std::string& file) {
  const runtime::ObjectAnnotations read = runtime::read_coco_annotations(file);
  std::vector<runtime::Detection> detections;
  for (std::size_t image = 0; image < read.images.size(); ++image) {
    for (const runtime::ObjectAnnotation& object : read.of_image(image)) {
      test::require(object.image == static_cast<std::int64_t>(image));
      test::require(object.category >= 0 && object.category < std::ssize(read.categories));
      detections.push_back({object.image, object.category, object.box, object.area});
    }
  }
  evaluate(read, detections);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool is_results = test::takes_other_way(text);
  const test::FuzzFolder& folder = test::fuzz_folder();
  folder.write("input.json", text);
  if (!is_results) {
    test::accepted([&] { read_annotations(folder.file("input.json")); });
    return 0;
  }
  folder.write("annotations.json", kAnnotations);
  const runtime::ObjectAnnotations annotations =
      runtime::read_coco_annotations(folder.file("annotations.json"));
  test::accepted(
      [&] { evaluate(annotations, runtime::read_coco_detections(folder.file("input.json"), annotations)); });
  return 0;
}
