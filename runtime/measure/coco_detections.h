// COCO's format for results: [{image_id, category_id, bbox: [x, y, width, height], score}, …] in JSON.
#pragma once

#include <vector>

#include "runtime/data/vision/object_annotations.h"
#include "runtime/io/place.h"
#include "runtime/measure/average_precision.h"

namespace rewire::runtime {

/// Reads detections, in the order of the file; other members are skipped. Detections of categories that the
/// annotations lack are left out, and one warning says how many. Throws UserError, in one line with the place, as
/// read_json_rows() does, and for an image that the annotations lack, and as coco_box() does.
std::vector<Detection> read_coco_detections(const FilePlace& file, const ObjectAnnotations& annotations);

}  // namespace rewire::runtime
