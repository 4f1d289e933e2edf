// Average precision and recall of small cases, worked out by hand.
#include "runtime/measure/average_precision.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace rewire::test {
namespace {

using runtime::Detection;
using runtime::ObjectAnnotation;
using runtime::ObjectAnnotations;
using runtime::ObjectBox;
using Values = std::map<std::string, double, std::less<>>;

constexpr double kNone = -1;
constexpr ObjectBox kBox = {10, 20, 40, 50};          // area 2000: medium
constexpr ObjectBox kOther = {300, 200, 40, 50};      // has nothing of kBox
constexpr ObjectBox kElsewhere = {500, 100, 40, 50};  // nor of kOther

ObjectAnnotation object(std::int64_t image, const ObjectBox& box, std::int64_t category = 0) {
  return {0, image, category, box, box.area(), false};
}

ObjectAnnotation crowd(std::int64_t image, const ObjectBox& box) {
  return {0, image, 0, box, box.area(), true};
}

/// Four images and three categories.
Values values_of(const std::vector<ObjectAnnotation>& objects, const std::vector<Detection>& detections) {
  ObjectAnnotations annotations;
  annotations.images.resize(4);
  annotations.categories.resize(3);
  annotations.objects = objects;
  Values values;
  const auto found = runtime::average_precision(annotations, detections);
  for (std::size_t i = 0; i < found.size(); ++i) values.emplace(runtime::kDetectionMetrics[i].name, found[i]);
  return values;
}

TEST_CASE("precision is the largest at a recall or more, at 101 recalls") {
  const std::vector<ObjectAnnotation> objects = {object(0, kBox), object(1, kBox)};
  // Hit, miss, hit: precision 1 up to recall 0.5 (51 of the recalls), then 2/3.
  Values values = values_of(objects, {{0, 0, kBox, .9}, {0, 0, kElsewhere, .8}, {1, 0, kBox, .7}});
  CHECK(values.at("AP") == Approx((51 + 50 * 2.0 / 3) / 101).epsilon(1e-12));
  CHECK(values.at("AP50") == Approx(values.at("AP")));
  CHECK(values.at("APm") == Approx(values.at("AP")));
  CHECK(values.at("APs") == kNone);
  CHECK(values.at("ARl") == kNone);
  CHECK(values.at("AR100") == 1);
  // Miss, hit, hit: 2/3 everywhere, more than the 1/2 of the first hit.
  values = values_of(objects, {{0, 0, kBox, .8}, {0, 0, kElsewhere, .9}, {1, 0, kBox, .7}});
  CHECK(values.at("AP") == Approx(2.0 / 3).epsilon(1e-12));
  // One of two objects found.
  values = values_of(objects, {{1, 0, kBox, .1}});
  CHECK(values.at("AP") == Approx(51.0 / 101).epsilon(1e-12));
  CHECK(values.at("AR1") == 0.5);
  // A second detection of an object is a miss.
  values = values_of({object(0, kBox)}, {{0, 0, kBox, .9}, {0, 0, kBox, .8}});
  CHECK(values.at("AP") == Approx(1).epsilon(1e-12));
  values = values_of(objects, {{0, 0, kBox, .9}, {0, 0, kBox, .8}, {1, 0, kBox, .7}});
  CHECK(values.at("AP") == Approx((51 + 50 * 2.0 / 3) / 101).epsilon(1e-12));
}

TEST_CASE("a detection hits at the thresholds up to its IoU, itself included") {
  const auto of_part = [](double share) {
    return values_of({object(0, kBox)}, {{0, 0, {kBox.x, kBox.y, kBox.width * share, kBox.height}, .5}});
  };
  Values values = of_part(.72);  // 0.50, 0.55, 0.60, 0.65, 0.70
  CHECK(values.at("AP") == Approx(.5).epsilon(1e-12));
  CHECK(values.at("AP50") == Approx(1).epsilon(1e-12));
  CHECK(values.at("AP75") == 0);
  CHECK(values.at("AR100") == Approx(.5));
  CHECK(of_part(.5).at("AP50") == Approx(1).epsilon(1e-12));
  CHECK(of_part(.75).at("AP75") == Approx(1).epsilon(1e-12));
  CHECK(of_part(.49).at("AP50") == 0);
  // Only the category that has an object counts.
  values = values_of({object(0, kBox)}, {{0, 1, kBox, .5}});
  CHECK(values.at("AP") == 0);
}

TEST_CASE("detections in a crowd do not count, and objects come before crowds") {
  const ObjectBox region = {0, 0, 200, 200};
  const ObjectBox in_crowd = {100, 100, 20, 20};  // all of it in the region, 1 % of its area
  const std::vector<Detection> both = {{0, 0, in_crowd, .9}, {0, 0, in_crowd, .8}, {0, 0, kOther, .7}};
  CHECK(values_of({object(0, kOther), crowd(0, region)}, both).at("AP") == Approx(1).epsilon(1e-12));
  CHECK(values_of({object(0, kOther)}, both).at("AP") == Approx(1.0 / 3).epsilon(1e-12));
  // IoU 0.72 with the object, 1 with the crowd around it.
  const ObjectBox part = {kBox.x, kBox.y, kBox.width * .72, kBox.height};
  Values values = values_of({crowd(0, region), object(0, kBox)}, {{0, 0, part, .9}});
  CHECK(values.at("AR100") == Approx(.5));
  CHECK(values.at("AP") == Approx(.5).epsilon(1e-12));
  // Crowds alone are no objects.
  values = values_of({crowd(0, region)}, {{0, 0, in_crowd, .9}});
  for (const auto& [name, value] : values) CHECK(value == kNone);
}

TEST_CASE("areas of exactly 32² and 96² are in two ranges") {
  const ObjectBox of_32 = {0, 0, 32, 32}, of_96 = {200, 200, 96, 96};
  Values values = values_of({object(0, of_32)}, {{0, 0, of_32, .5}});
  CHECK(values.at("APs") == Approx(1).epsilon(1e-12));
  CHECK(values.at("APm") == Approx(1).epsilon(1e-12));
  CHECK(values.at("APl") == kNone);
  values = values_of({object(0, of_96)}, {});
  CHECK(values.at("APs") == kNone);
  CHECK(values.at("ARm") == 0);
  CHECK(values.at("ARl") == 0);
  // The area is the annotation's, not the box's.
  ObjectAnnotation thin = object(0, of_96);
  thin.area = 1000;
  values = values_of({thin}, {{0, 0, of_96, .5}});
  CHECK(values.at("APs") == Approx(1).epsilon(1e-12));
  CHECK(values.at("APm") == kNone);
}

TEST_CASE("in a range, detections of other objects do not count, nor unmatched ones of other areas") {
  const ObjectBox small = {0, 0, 20, 20}, small_miss = {600, 0, 20, 20}, large_miss = {600, 200, 200, 200};
  const std::vector<ObjectAnnotation> objects = {object(0, small), object(0, kBox)};
  const Values values = values_of(
      objects, {{0, 0, kBox, .9}, {0, 0, large_miss, .8}, {0, 0, small_miss, .7}, {0, 0, small, .6}});
  CHECK(values.at("APs") == Approx(1.0 / 2).epsilon(1e-12));
  CHECK(values.at("APm") == Approx(1).epsilon(1e-12));
  CHECK(values.at("APl") == kNone);
  CHECK(values.at("AP") == Approx((51 + 50 * 2.0 / 4) / 101).epsilon(1e-12));
}

TEST_CASE("of a category in an image 1, 10 or 100 detections count, by score") {
  std::vector<Detection> detections;
  for (int i = 0; i < 100; ++i) detections.push_back({0, 0, kElsewhere, .5});
  detections.push_back({0, 0, kBox, .4});
  const std::vector<ObjectAnnotation> objects = {object(0, kBox), object(0, kOther)};
  Values values = values_of(objects, detections);
  CHECK(values.at("AR100") == 0);
  CHECK(values.at("AP") == 0);
  detections.erase(detections.begin());
  CHECK(values_of(objects, detections).at("AR100") == Approx(.5));
  // Another category has 100 of its own; there the first finds an object, and the eleventh another.
  detections.assign(11, {0, 1, kElsewhere, .5});
  detections[0] = {0, 1, kBox, .9};
  detections[10] = {0, 1, kOther, .1};
  values = values_of({object(0, kBox, 1), object(0, kOther, 1)}, detections);
  CHECK(values.at("AR1") == Approx(.5));
  CHECK(values.at("AR10") == Approx(.5));
  CHECK(values.at("AR100") == Approx(1));
}

TEST_CASE("equal scores keep the order of images, in one image that of the file") {
  const Detection hit = {2, 0, kBox, .5}, miss_before = {1, 0, kBox, .5}, miss_after = {3, 0, kBox, .5},
                  miss_in_image = {2, 0, kOther, .5};
  const auto ap = [](const std::vector<Detection>& detections) {
    return values_of({object(2, kBox)}, detections).at("AP");
  };
  CHECK(ap({hit, miss_before}) == Approx(.5).epsilon(1e-12));
  CHECK(ap({miss_after, hit}) == Approx(1).epsilon(1e-12));
  CHECK(ap({miss_in_image, hit}) == Approx(.5).epsilon(1e-12));
  CHECK(ap({hit, miss_in_image}) == Approx(1).epsilon(1e-12));
}

TEST_CASE("of objects with equal IoU the last is taken") {
  // Between two objects that reach 10 pixels beyond it, to the left or to the right; then one detection of the left.
  const ObjectBox left = {0, 0, 40, 10}, right = {10, 0, 40, 10}, between = {10, 0, 30, 10};
  const std::vector<Detection> detections = {{0, 0, between, .9}, {0, 0, left, .8}};
  CHECK(values_of({object(0, left), object(0, right)}, detections).at("AR100") == Approx(.5 * (.6 + 1)));
  CHECK(values_of({object(0, right), object(0, left)}, detections).at("AP50") == Approx(1).epsilon(1e-12));
}

TEST_CASE("means are over the categories with objects, and there may be none") {
  const std::vector<Detection> detections = {{0, 0, kBox, .9}, {0, 2, kBox, .9}, {3, 1, kOther, .9}};
  CHECK(values_of({object(0, kBox), object(1, kBox, 1)}, detections).at("AP") == Approx(.5).epsilon(1e-12));
  for (const auto& [name, value] : values_of({}, detections)) CHECK(value == kNone);
  for (const auto& [name, value] : values_of({}, {})) CHECK(value == kNone);
  CHECK(values_of({object(0, kBox)}, {}).at("AP") == 0);
  CHECK(runtime::average_precision({}, {})[0] == kNone);
  // Boxes without area hit nothing, and do not fail.
  const ObjectBox empty = {5, 5, 0, 0};
  CHECK(values_of({object(0, empty)}, {{0, 0, empty, .9}}).at("AP") == 0);
}

}  // namespace
}  // namespace rewire::test
