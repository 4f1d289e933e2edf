// Average precision and recall of detected boxes, as COCO counts them (Lin et al., Microsoft COCO, ECCV 2014): the
// numbers of COCOeval for boxes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/data/vision/object_annotations.h"

namespace rewire::runtime {

struct Detection {
  std::int64_t image = 0, category = 0;  // indices into the annotations' lists
  ObjectBox box;
  double score = 0;
};

/// A number of COCO's evaluation: its name, and what it is a mean over.
struct DetectionMetric {
  std::string_view name, iou, area;
  int most_detections;  // of a category in an image, those with the highest scores
};
inline constexpr std::array<DetectionMetric, 12> kDetectionMetrics = {{
    {"AP", "0.50:0.95", "all", 100},
    {"AP50", "0.50", "all", 100},
    {"AP75", "0.75", "all", 100},
    {"APs", "0.50:0.95", "small", 100},
    {"APm", "0.50:0.95", "medium", 100},
    {"APl", "0.50:0.95", "large", 100},
    {"AR1", "0.50:0.95", "all", 1},
    {"AR10", "0.50:0.95", "all", 10},
    {"AR100", "0.50:0.95", "all", 100},
    {"ARs", "0.50:0.95", "small", 100},
    {"ARm", "0.50:0.95", "medium", 100},
    {"ARl", "0.50:0.95", "large", 100},
}};

/// Returns the values of kDetectionMetrics, in [0, 1]; -1 where no category has an object that counts.
///
/// In each image and category, detections in the order of their scores (equal ones: as given) take objects: at
/// IoU threshold t = 0.50, 0.55, …, 0.95 the free object with the largest IoU >= t (equal ones: the last). A crowd
/// is never used up; with it, IoU is the intersection over the detection's area. Objects that do not count (crowds,
/// areas outside the range) are taken only if no other can be; a detection that takes one does not count, nor does
/// one that takes none and has an area outside the range. Ranges: small 0 to 32², medium 32² to 96², large 96² to
/// 1e5², ends included; an object has the area of its annotation, a detection its box's.
///
/// The detections of a category over all images, by score (equal ones: by image), give recall and precision. AP is
/// the mean, over 101 recalls 0, 0.01, …, 1, of the largest precision at that recall or more. AR is the recall of
/// all. Both are means over the thresholds and over the categories with an object that counts.
///
/// Indices must be in range, scores finite, and boxes as coco_box() gives them.
std::array<double, 12> average_precision(const ObjectAnnotations& annotations,
                                         std::span<const Detection> detections);

}  // namespace rewire::runtime
