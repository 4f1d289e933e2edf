// For each category: match its detections image by image, which gives each a verdict per area range and threshold;
// then walk through them once per area range in the order of scores.
#include "runtime/measure/average_precision.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace rewire::runtime {
namespace {

constexpr std::size_t kThresholds = 10, kRecalls = 101, kMostDetections = 100;

/// One bit per threshold.
using ThresholdBits = std::uint16_t;
constexpr ThresholdBits kAllThresholds = (1U << kThresholds) - 1;

struct AreaRange {
  double least, most;
  bool has(double area) const { return area >= least && area <= most; }
};
constexpr double kSmallArea = 32 * 32, kMediumArea = 96 * 96, kMostArea = 1e10;
enum Area : std::size_t { kAll, kSmall, kMedium, kLarge, kAreas };
constexpr std::array<AreaRange, kAreas> kAreaRanges = {
    {{0, kMostArea}, {0, kSmallArea}, {kSmallArea, kMediumArea}, {kMediumArea, kMostArea}}};

/// Returns numbers at equal distances, rounded as numpy.linspace rounds them: they decide at ties.
template <std::size_t count>
std::array<double, count> spaced(double first, double last) {
  std::array<double, count> values{};
  const double step = (last - first) / static_cast<double>(count - 1);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<double>(i) * step + first;
  values.back() = last;
  return values;
}

/// Returns the intersection over the union, or over the detection if the object is a crowd.
double overlap_of(const ObjectBox& found, const ObjectAnnotation& object) {
  const ObjectBox& box = object.box;
  const double width = std::min(found.width + found.x, box.width + box.x) - std::max(found.x, box.x);
  if (width <= 0) return 0;
  const double height = std::min(found.height + found.y, box.height + box.y) - std::max(found.y, box.y);
  if (height <= 0) return 0;
  const double both = width * height;
  return both / (object.is_crowd ? found.area() : found.area() + box.area() - both);
}

/// The thresholds at which a detection takes an object that counts, and at which it does not count itself.
struct Verdict {
  ThresholdBits hits = 0, ignored = 0;
};

struct RankedDetection {
  double score = 0;
  std::size_t rank = 0;  // in its image
  std::array<Verdict, kAreas> verdicts;
};

/// The objects of one category in one image, and which of them are taken.
class ImageMatcher {
 public:
  ImageMatcher() : thresholds_(spaced<kThresholds>(0.5, 0.95)) {
    for (double& threshold : thresholds_) threshold = std::min(threshold, 1 - 1e-10);
  }

  void begin() { objects_.clear(); }
  void add(const ObjectAnnotation& object) {
    Object& added = objects_.emplace_back(Object{&object, {}, {}});
    for (std::size_t area = 0; area < kAreas; ++area)
      added.counts[area] = !object.is_crowd && kAreaRanges[area].has(object.area);
  }
  bool counts(std::size_t object, std::size_t area) const { return objects_[object].counts[area]; }
  std::size_t size() const { return objects_.size(); }

  /// Returns the verdicts on a detection that comes after those with higher scores.
  std::array<Verdict, kAreas> match(const ObjectBox& box) {
    candidates_.clear();
    for (Object& object : objects_) {
      const double overlap = overlap_of(box, *object.annotation);
      if (overlap >= thresholds_.front()) candidates_.push_back({&object, overlap});
    }
    std::array<Verdict, kAreas> verdicts;
    for (std::size_t area = 0; area < kAreas; ++area) {
      Verdict& verdict = verdicts[area];
      for (std::size_t t = 0; t < kThresholds && !candidates_.empty(); ++t) {
        const auto bit = static_cast<ThresholdBits>(1U << t);
        if (take(area, t, true)) {
          verdict.hits |= bit;
        } else if (take(area, t, false)) {
          verdict.ignored |= bit;
        }
      }
      if (!kAreaRanges[area].has(box.area()))
        verdict.ignored |= static_cast<ThresholdBits>(kAllThresholds & ~verdict.hits);
    }
    return verdicts;
  }

 private:
  struct Object {
    const ObjectAnnotation* annotation;
    std::array<bool, kAreas> counts;
    std::array<ThresholdBits, kAreas> taken;
  };
  struct Candidate {
    Object* object;
    double overlap;
  };

  /// Takes the best free object among those that count, or among the others; returns false if there is none.
  bool take(std::size_t area, std::size_t t, bool counts) {
    Object* best = nullptr;
    double least = thresholds_[t];
    for (const auto& [object, overlap] : candidates_) {
      if (object->counts[area] != counts || overlap < least) continue;
      if ((object->taken[area] >> t & 1U) != 0 && !object->annotation->is_crowd) continue;
      least = overlap;
      best = object;
    }
    if (best != nullptr) best->taken[area] |= static_cast<ThresholdBits>(1U << t);
    return best != nullptr;
  }

  std::array<double, kThresholds> thresholds_;
  std::vector<Object> objects_;
  std::vector<Candidate> candidates_;  // objects that the detection may take at some threshold
};

/// Sums over categories and thresholds, and the count of categories in them.
struct PrecisionSums {
  double categories = 0;
  std::array<double, kThresholds> precision{};  // by threshold, of means over recalls
  double recall = 0, recall_of_1 = 0, recall_of_10 = 0;
};

/// The mean over 101 recalls of the precision at that recall or more. `precision` has an element for each hit, and
/// becomes the largest from there on.
double interpolated(std::vector<double>& precision, double objects) {
  static const std::array<double, kRecalls> recalls = spaced<kRecalls>(0, 1);
  for (std::size_t i = precision.size(); i-- > 1;)
    precision[i - 1] = std::max(precision[i - 1], precision[i]);
  double sum = 0;
  std::size_t hit = 0;
  for (const double recall : recalls) {
    while (hit < precision.size() && static_cast<double>(hit + 1) / objects < recall) ++hit;
    if (hit == precision.size()) break;
    sum += precision[hit];
  }
  return sum / kRecalls;
}

/// All images of one category.
class CategoryTally {
 public:
  void begin() {
    ranked_.clear();
    objects_.fill(0);
  }

  /// Adds an image: detections by descending score, at most kMostDetections.
  void add_image(ImageMatcher& matcher, std::span<const Detection* const> detections) {
    for (std::size_t i = 0; i < matcher.size(); ++i) {
      for (std::size_t area = 0; area < kAreas; ++area) objects_[area] += matcher.counts(i, area) ? 1 : 0;
    }
    for (std::size_t rank = 0; rank < detections.size(); ++rank)
      ranked_.push_back({detections[rank]->score, rank, matcher.match(detections[rank]->box)});
  }

  void add_to(std::array<PrecisionSums, kAreas>& sums) {
    std::ranges::stable_sort(ranked_, std::ranges::greater{}, &RankedDetection::score);
    for (std::size_t area = 0; area < kAreas; ++area) {
      if (objects_[area] > 0) add_area(area, sums[area]);
    }
  }

 private:
  void add_area(std::size_t area, PrecisionSums& sums) {
    for (std::vector<double>& precision : precision_) precision.clear();
    std::size_t misses = 0, hits_of_1 = 0, hits_of_10 = 0;  // misses at all thresholds,
    std::array<std::size_t, kThresholds> more_misses{};     // and the others
    for (const RankedDetection& detection : ranked_) {
      const auto [hits, ignored] = detection.verdicts[area];
      if (hits == 0 && ignored == 0) {
        ++misses;
        continue;
      }
      if (ignored == kAllThresholds) continue;
      for (std::size_t t = 0; t < kThresholds; ++t) {
        if ((hits >> t & 1U) != 0) {
          hits_of_1 += detection.rank < 1 ? 1 : 0;
          hits_of_10 += detection.rank < 10 ? 1 : 0;
          const auto tp = static_cast<double>(precision_[t].size() + 1);
          const auto fp = static_cast<double>(misses + more_misses[t]);
          precision_[t].push_back(tp / (fp + tp + std::numeric_limits<double>::epsilon()));
        } else if ((ignored >> t & 1U) == 0) {
          ++more_misses[t];
        }
      }
    }
    const auto objects = static_cast<double>(objects_[area]);
    ++sums.categories;
    sums.recall_of_1 += static_cast<double>(hits_of_1) / objects;
    sums.recall_of_10 += static_cast<double>(hits_of_10) / objects;
    for (std::size_t t = 0; t < kThresholds; ++t) {
      sums.recall += static_cast<double>(precision_[t].size()) / objects;
      sums.precision[t] += interpolated(precision_[t], objects);
    }
  }

  std::vector<RankedDetection> ranked_;
  std::array<std::size_t, kAreas> objects_{};  // that count
  std::array<std::vector<double>, kThresholds> precision_;
};

/// Returns the rows by category, then image, then as they are: two counting sorts.
template <class Row>
std::vector<const Row*> grouped(std::span<const Row> rows, std::size_t images, std::size_t categories) {
  std::vector<const Row*> order(rows.size()), sorted(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) order[i] = &rows[i];
  const auto sort_by = [&](std::int64_t Row::* key, std::size_t count) {
    std::vector<std::size_t> next(count + 1);
    for (const Row& row : rows) ++next[static_cast<std::size_t>(row.*key) + 1];
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (const Row* row : order) sorted[next[static_cast<std::size_t>(row->*key)]++] = row;
    std::swap(order, sorted);
  };
  sort_by(&Row::image, images);
  sort_by(&Row::category, categories);
  return order;
}

/// Removes and returns the first rows, those of a category and image.
template <class Row>
std::span<const Row*> take_rows(std::span<const Row*>& rows, std::int64_t category, std::int64_t image) {
  const auto end = std::ranges::find_if(
      rows, [&](const Row* row) { return row->category != category || row->image != image; });
  const auto count = static_cast<std::size_t>(end - rows.begin());
  const std::span<const Row*> taken = rows.first(count);
  rows = rows.subspan(count);
  return taken;
}

std::array<double, 12> means_of(const std::array<PrecisionSums, kAreas>& sums) {
  const auto mean = [](double sum, double count) { return count == 0 ? -1 : sum / count; };
  const auto ap = [&](Area area) {
    const auto& precision = sums[area].precision;
    return mean(std::accumulate(precision.begin(), precision.end(), 0.0),
                sums[area].categories * kThresholds);
  };
  const auto ar = [&](Area area) { return mean(sums[area].recall, sums[area].categories * kThresholds); };
  const PrecisionSums& all = sums[kAll];
  constexpr std::size_t kAt75 = 5;  // the threshold 0.75
  return {ap(kAll),
          mean(all.precision[0], all.categories),
          mean(all.precision[kAt75], all.categories),
          ap(kSmall),
          ap(kMedium),
          ap(kLarge),
          mean(all.recall_of_1, all.categories * kThresholds),
          mean(all.recall_of_10, all.categories * kThresholds),
          ar(kAll),
          ar(kSmall),
          ar(kMedium),
          ar(kLarge)};
}

}  // namespace

std::array<double, 12> average_precision(const ObjectAnnotations& annotations,
                                         std::span<const Detection> detections) {
  const std::size_t images = annotations.images.size(), categories = annotations.categories.size();
  auto all_objects = grouped(std::span<const ObjectAnnotation>(annotations.objects), images, categories);
  auto all_found = grouped(detections, images, categories);
  std::span<const ObjectAnnotation*> objects = all_objects;
  std::span<const Detection*> found = all_found;
  std::array<PrecisionSums, kAreas> sums;
  ImageMatcher matcher;
  CategoryTally tally;
  for (std::int64_t category = 0; category < std::ssize(annotations.categories); ++category) {
    tally.begin();
    const auto image_of = [&](const auto& rows) {
      return rows.empty() || rows.front()->category != category ? std::ssize(annotations.images)
                                                                : rows.front()->image;
    };
    while (true) {
      const std::int64_t image = std::min(image_of(objects), image_of(found));
      if (image == std::ssize(annotations.images)) break;
      matcher.begin();
      for (const ObjectAnnotation* object : take_rows(objects, category, image)) matcher.add(*object);
      const std::span<const Detection*> in_image = take_rows(found, category, image);
      std::ranges::stable_sort(in_image, std::ranges::greater{}, &Detection::score);
      tally.add_image(matcher, in_image.first(std::min(in_image.size(), kMostDetections)));
    }
    tally.add_to(sums);
  }
  return means_of(sums);
}

}  // namespace rewire::runtime
