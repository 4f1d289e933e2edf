// The twelve numbers of 50 random sets, from COCO's files on, against those that pycocotools gave.
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/data/vision/coco_annotations.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"
#include "runtime/measure/average_precision.h"
#include "runtime/measure/coco_detections.h"
#include "tests/runtime_measure/random_detections.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

TEST_CASE("random sets have the twelve numbers of pycocotools") {
  const auto recorded = runtime::read_json(std::string(REWIRE_GOLDENS) + "/detection.json");
  const TemporaryFolder folder;
  const auto seed = recorded.at("seed").get<std::uint64_t>();
  Draws draws(seed);
  int number = 0;
  for (const auto& wanted : recorded.at("sets")) {
    CAPTURE(seed, number++);
    const DrawnSet set = draw_set(draws);
    REQUIRE(set.images == wanted.at("images").get<std::size_t>());
    REQUIRE(set.objects == wanted.at("objects").get<std::size_t>());
    REQUIRE(set.detections == wanted.at("detections").get<std::size_t>());
    const std::string annotations_file = folder.file("annotations.json"),
                      results_file = folder.file("results.json");
    runtime::write_file_atomically(annotations_file, set.annotations);
    runtime::write_file_atomically(results_file, set.results);
    const runtime::ObjectAnnotations annotations = runtime::read_coco_annotations(annotations_file);
    const auto values =
        runtime::average_precision(annotations, runtime::read_coco_detections(results_file, annotations));
    for (std::size_t i = 0; i < values.size(); ++i) {
      CAPTURE(runtime::kDetectionMetrics[i].name);
      CHECK(std::abs(values[i] - wanted.at("values").at(i).get<double>()) < 1e-9);
    }
  }
  CHECK(number == 50);
}

}  // namespace
}  // namespace rewire::test
