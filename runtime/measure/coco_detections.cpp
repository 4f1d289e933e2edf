#include "runtime/measure/coco_detections.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/data/vision/coco_annotations.h"
#include "runtime/device/log.h"
#include "runtime/io/json_rows.h"

namespace rewire::runtime {

std::vector<Detection> read_coco_detections(const FilePlace& file, const ObjectAnnotations& annotations) {
  std::vector<Detection> detections;
  std::size_t left_out = 0;
  std::string first_left_out;
  const auto take = [&](const JsonRow& row) {
    const std::int64_t image_id = row.whole("image_id"), category_id = row.whole("category_id");
    const Detection detection{index_of_id(annotations.images, image_id),
                              index_of_id(annotations.categories, category_id), coco_box(row),
                              row.number("score")};
    if (detection.image < 0)
      row.refuse(fmt::format(
          "has image_id {}, which the annotations lack: give the annotations of these images", image_id));
    if (detection.category >= 0) {
      detections.push_back(detection);
    } else if (++left_out == 1) {
      first_left_out = fmt::format("{} has category_id {}", row.place(), category_id);
    }
  };
  read_json_rows(file, "COCO results, a list of {image_id, category_id, bbox, score}",
                 {{"", {"image_id", "category_id", "bbox", "score"}, take}});
  if (left_out > 0)
    write_log(LogLevel::warning,
              fmt::format(
                  "{}: {} of {} detections do not count, because the annotations lack their categories; the "
                  "first: {}",
                  file.path(), left_out, left_out + detections.size(), first_left_out));
  return detections;
}

}  // namespace rewire::runtime
