// COCO's format for objects in images (Lin et al., Microsoft COCO, ECCV 2014; the format page of cocodataset.org):
// one JSON file for all images of a split.
#pragma once

#include "runtime/data/vision/object_annotations.h"
#include "runtime/io/json_rows.h"
#include "runtime/io/place.h"

namespace rewire::runtime {

/// Reads {"images": [{id, file_name, width, height}], "annotations": [{id, image_id, category_id, bbox: [x, y,
/// width, height], area, iscrowd}], "categories": [{id, name}]} in any order of the lists; other members, such as
/// outlines, are skipped as they are read. Images without annotations stay. Throws UserError, in one line with the
/// place, as read_json_rows() does, and for an id that two rows of a list have, an image or category that is not
/// listed, an extent of an image below 1, a negative area, or a box that coco_box() refuses.
ObjectAnnotations read_coco_annotations(const FilePlace& file);

/// Returns the row's "bbox". Throws UserError if it is not four numbers, its width or height is negative, or its
/// area is no finite number.
ObjectBox coco_box(const JsonRow& row);

}  // namespace rewire::runtime
