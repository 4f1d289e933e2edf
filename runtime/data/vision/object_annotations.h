// Objects in images: a box and a category each, whatever file they come from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rewire::runtime {

/// In pixels from the left upper corner of the image; the corner of a pixel is a whole number.
struct ObjectBox {
  double x = 0, y = 0, width = 0, height = 0;
  double area() const { return width * height; }
  bool operator==(const ObjectBox&) const = default;
};

struct AnnotatedImage {
  std::int64_t id = 0;
  std::string file_name;  // as the annotations have it, below a folder that they do not know
  std::int64_t width = 0, height = 0;
};

struct ObjectCategory {
  std::int64_t id = 0;
  std::string name;
};

struct ObjectAnnotation {
  std::int64_t id = 0;
  std::int64_t image = 0, category = 0;  // indices
  ObjectBox box;
  double area = 0;        // in square pixels, of the object's outline: at most the box's
  bool is_crowd = false;  // the box is around many objects
};

struct ObjectAnnotations {
  std::vector<AnnotatedImage> images;      // by id
  std::vector<ObjectCategory> categories;  // by id
  std::vector<ObjectAnnotation> objects;   // by image; in one image, in the order of the file
  std::vector<std::size_t> first;          // of an image's objects; one more element, the number of objects

  std::span<const ObjectAnnotation> of_image(std::size_t image) const {
    return std::span(objects).subspan(first[image], first[image + 1] - first[image]);
  }
};

/// Returns the index of the image or category with this id; -1 if there is none.
template <class Row>
std::int64_t index_of_id(const std::vector<Row>& rows, std::int64_t id) {
  const auto found = std::lower_bound(rows.begin(), rows.end(), id,
                                      [](const Row& row, std::int64_t wanted) { return row.id < wanted; });
  return found == rows.end() || found->id != id ? -1 : found - rows.begin();
}

}  // namespace rewire::runtime
