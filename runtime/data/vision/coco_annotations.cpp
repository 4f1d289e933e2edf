#include "runtime/data/vision/coco_annotations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

constexpr std::string_view kAnnotationsFormat =
    "COCO instance annotations, an object with the lists images, annotations and categories";

std::int64_t extent(const JsonRow& row, std::string_view key) {
  const std::int64_t value = row.whole(key);
  if (value < 1) row.refuse(fmt::format("has {} {}: at least 1", key, value));
  return value;
}

/// Throws UserError if two rows have one id; `list` has their order in the file.
template <class Row>
void check_ids(const std::vector<Row>& rows, const std::string& file, std::string_view list) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(rows[i].id, i); });
  const auto same = std::ranges::adjacent_find(order, {}, [&](std::size_t i) { return rows[i].id; });
  if (same != order.end())
    user_error("{}: {}[{}] has the id {} of {}[{}]: give each an id of its own", file, list, *(same + 1),
               rows[*same].id, list, *same);
}

/// Replaces ids by indices.
void resolve_ids(ObjectAnnotations& read, const std::string& file) {
  for (std::size_t i = 0; i < read.objects.size(); ++i) {
    ObjectAnnotation& object = read.objects[i];
    const auto resolve = [&](std::int64_t& id, const auto& rows, std::string_view key,
                             std::string_view list) {
      const std::int64_t index = index_of_id(rows, id);
      if (index < 0)
        user_error("{}: annotations[{}] has {} {}, which {} lacks: add it there or remove the annotation",
                   file, i, key, id, list);
      id = index;
    };
    resolve(object.image, read.images, "image_id", "images");
    resolve(object.category, read.categories, "category_id", "categories");
  }
}

void group_by_image(ObjectAnnotations& read) {
  std::ranges::stable_sort(read.objects, {}, &ObjectAnnotation::image);
  read.first.assign(read.images.size() + 1, 0);
  for (const ObjectAnnotation& object : read.objects)
    ++read.first[static_cast<std::size_t>(object.image) + 1];
  std::partial_sum(read.first.begin(), read.first.end(), read.first.begin());
}

}  // namespace

ObjectBox coco_box(const JsonRow& row) {
  const std::span<const double> numbers = row.numbers("bbox", 4);
  const ObjectBox box{numbers[0], numbers[1], numbers[2], numbers[3]};
  if (box.width < 0 || box.height < 0 || !std::isfinite(box.area()))
    row.refuse(
        fmt::format("has the bbox [{}, {}, {}, {}]: give x, y, width and height, the last two at least 0",
                    box.x, box.y, box.width, box.height));
  return box;
}

ObjectAnnotations read_coco_annotations(const FilePlace& file) {
  ObjectAnnotations read;
  const auto take_image = [&](const JsonRow& row) {
    read.images.push_back(
        {row.whole("id"), row.text("file_name"), extent(row, "width"), extent(row, "height")});
  };
  const auto take_object = [&](const JsonRow& row) {
    // Ids for now: the other lists may come later in the file.
    read.objects.push_back({row.whole("id"), row.whole("image_id"), row.whole("category_id"), coco_box(row),
                            row.number("area"), row.truth("iscrowd")});
    if (const double area = read.objects.back().area; area < 0)
      row.refuse(fmt::format("has the area {}: at least 0", area));
  };
  const auto take_category = [&](const JsonRow& row) {
    read.categories.push_back({row.whole("id"), row.text("name")});
  };
  read_json_rows(file, kAnnotationsFormat,
                 {{"images", {"id", "file_name", "width", "height"}, take_image},
                  {"annotations", {"id", "image_id", "category_id", "bbox", "area", "iscrowd"}, take_object},
                  {"categories", {"id", "name"}, take_category}});
  check_ids(read.images, file.path(), "images");
  check_ids(read.objects, file.path(), "annotations");
  check_ids(read.categories, file.path(), "categories");
  std::ranges::sort(read.images, {}, &AnnotatedImage::id);
  std::ranges::sort(read.categories, {}, &ObjectCategory::id);
  resolve_ids(read, file.path());
  group_by_image(read);
  return read;
}

}  // namespace rewire::runtime
