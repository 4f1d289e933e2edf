// Draw for draw as tests/reference/detection.py.
#include "tests/runtime_measure/random_detections.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace rewire::test {
namespace {

using nlohmann::json;
using Box = std::array<double, 4>;

template <class Row>
void shuffle(Draws& draws, std::vector<Row>& rows) {
  for (std::size_t i = rows.size(); i-- > 1;) std::swap(rows[i], rows[draws.below(i + 1)]);
}

template <class Row>
const Row& any_of_rows(Draws& draws, const std::vector<Row>& rows) {
  return rows[draws.below(rows.size())];
}

/// A number from `first` on, in eighths.
double eighths(Draws& draws, std::uint64_t count, double first = 0) {
  return first + static_cast<double>(draws.below(count)) / 8;
}

std::vector<std::int64_t> draw_ids(Draws& draws, std::uint64_t count) {
  std::vector<std::int64_t> ids;
  std::int64_t last = 0;
  for (std::uint64_t i = 0; i < count; ++i)
    ids.push_back(last += 1 + static_cast<std::int64_t>(draws.below(4)));
  shuffle(draws, ids);
  return ids;
}

std::pair<double, double> draw_extent(Draws& draws) {
  constexpr double kEighth = 0.125;
  const auto both = [&](std::uint64_t count, double first) {
    const double width = eighths(draws, count, first);
    return std::pair(width, eighths(draws, count, first));
  };
  switch (draws.below(6)) {
    case 0:
      return {32, 32};
    case 1:
      return {96, 96};
    case 2:
      return both(256, kEighth);
    case 3:
      return both(512, 32);
    case 4:
      return both(1600, 96);
    default: {
      const double width = eighths(draws, 64, kEighth);
      return {width, eighths(draws, 800, 200)};
    }
  }
}

Box draw_box(Draws& draws) {
  const auto [width, height] = draw_extent(draws);
  const double x = eighths(draws, 2400);
  return {x, eighths(draws, 2400), width, height};
}

Box draw_near(Draws& draws, Box box) {
  const std::uint64_t kind = draws.below(4);
  if (kind == 0) return box;
  if (kind == 1) {
    box[2] = box[2] * static_cast<double>(10 + draws.below(10)) / 20;
    return box;
  }
  box[0] += eighths(draws, 33, -2);
  box[1] += eighths(draws, 33, -2);
  box[2] += eighths(draws, 17);
  box[3] += eighths(draws, 17);
  return box;
}

class SetWriter {
 public:
  explicit SetWriter(Draws& draws)
      : draws_(draws),
        images_(draw_ids(draws, 1 + draws.below(12))),
        categories_(draw_ids(draws, 2 + draws.below(5))) {}

  DrawnSet write() {
    for (const std::int64_t image : images_) add_image(image);
    detect(images_[0], categories_[0], draw_box(draws_));
    if (draws_.one_in(5)) {
      for (int i = 0; i < 130; ++i) {
        const bool of_object = !boxes_.empty() && draws_.one_in(3);
        const Box box = of_object ? any_of_rows(draws_, boxes_) : draw_box(draws_);
        detect(images_[0], categories_[0], draw_near(draws_, box));
      }
    }
    shuffle(draws_, found_);
    json images = json::array(), categories = json::array();
    for (const std::int64_t id : images_)
      images.push_back(
          {{"id", id}, {"file_name", std::to_string(id) + ".jpg"}, {"width", 640}, {"height", 480}});
    for (const std::int64_t id : categories_)
      categories.push_back({{"id", id}, {"name", "category " + std::to_string(id)}});
    const json annotations = {{"images", images}, {"annotations", objects_}, {"categories", categories}};
    return {annotations.dump(), json(found_).dump(), images_.size(), objects_.size(), found_.size()};
  }

 private:
  void detect(std::int64_t image, std::int64_t category, const Box& box) {
    found_.push_back({{"image_id", image},
                      {"category_id", category},
                      {"bbox", box},
                      {"score", static_cast<double>(draws_.below(17)) / 16}});
  }

  void add_image(std::int64_t image) {
    const std::uint64_t objects = draws_.one_in(4) ? 0 : draws_.below(12);
    for (std::uint64_t i = 0; i < objects; ++i) add_object(image);
    if (draws_.one_in(2)) add_pair(image);
    for (std::uint64_t left = draws_.below(8); left > 0; --left) {
      const std::int64_t category = any_of_rows(draws_, categories_);
      detect(image, category, draw_box(draws_));
    }
  }

  void add(std::int64_t image, std::int64_t category, const Box& box, double area, int crowd) {
    boxes_.push_back(box);
    objects_.push_back({{"id", boxes_.size()},
                        {"image_id", image},
                        {"category_id", category},
                        {"bbox", box},
                        {"area", area},
                        {"iscrowd", crowd}});
  }

  /// A detection with equal IoU of two objects, and one of the two.
  void add_pair(std::int64_t image) {
    const Box at = draw_box(draws_);
    std::array<Box, 2> sides = {{{at[0], at[1], 40, 10}, {at[0] + 10, at[1], 40, 10}}};
    if (draws_.one_in(2)) std::swap(sides[0], sides[1]);
    for (const Box& box : sides) add(image, categories_[0], box, 400, 0);
    detect(image, categories_[0], {at[0] + 10, at[1], 30, 10});
    detect(image, categories_[0], sides[draws_.below(2)]);
  }

  void add_object(std::int64_t image) {
    const bool twin = !boxes_.empty() && draws_.one_in(8);
    const Box box = twin ? boxes_.back() : draw_box(draws_);
    const std::int64_t category = categories_[draws_.below(categories_.size() - 1)];
    const double area = box[2] * box[3] / (draws_.one_in(3) ? 2 : 1);
    const int crowd = draws_.one_in(8) ? 1 : 0;
    add(image, category, box, area, crowd);
    for (std::uint64_t left = draws_.below(4); left > 0; --left) {
      const Box near = draw_near(draws_, box);
      const std::int64_t label = draws_.one_in(8) ? any_of_rows(draws_, categories_) : category;
      detect(image, label, near);
      if (draws_.one_in(6)) detect(image, label, near);
    }
  }

  Draws& draws_;
  std::vector<std::int64_t> images_, categories_;  // ids
  std::vector<Box> boxes_;
  std::vector<json> objects_, found_;
};

}  // namespace

std::uint64_t Draws::below(std::uint64_t count) {
  state_ += 0x9E3779B97F4A7C15U;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return (z ^ (z >> 31)) % count;
}

DrawnSet draw_set(Draws& draws) {
  return SetWriter(draws).write();
}

}  // namespace rewire::test
