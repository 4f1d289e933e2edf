// The random sets of detections that tests/reference/detection.py draws, as the text of COCO's two files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace rewire::test {

/// splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t count);
  bool one_in(std::uint64_t count) { return below(count) == 0; }

 private:
  std::uint64_t state_;
};

struct DrawnSet {
  std::string annotations, results;
  std::size_t images = 0, objects = 0, detections = 0;
};

/// Draws images without objects, crowds, equal scores, equal boxes, equal IoUs, areas of exactly 32² and 96², a category
/// without objects, and at times more than 100 detections of a category in an image.
DrawnSet draw_set(Draws& draws);

}  // namespace rewire::test
