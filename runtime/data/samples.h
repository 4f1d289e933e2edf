// What one image of a source becomes on its way into a batch: it is read, and each chain of transforms that wants it
// makes floats of it.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/data/source.h"
#include "runtime/data/transform.h"

namespace rewire::runtime {

/// One image as it comes in an epoch; where augmentation repeats images, the how-manieth time, from 0.
struct Visit {
  std::int64_t epoch = 0, image = 0, repeat = 0;
};

/// Where a sample is written to: channels · height · width floats of the image, then of each of its views.
using SampleImages = std::span<const std::span<float>>;

/// Writes all of `images` and returns the label; nothing where the image cannot be read: `images` may then hold
/// anything. Called from several threads at once; a function of its arguments.
using SampleFunction = std::function<std::optional<std::int64_t>(const Visit& visit, SampleImages images)>;

/// The images of a source that were left out because they cannot be read. The first of them are told as warnings.
class UnreadableImages {
 public:
  /// One that is known already is not told again.
  void add(std::int64_t image, std::string_view why);
  std::int64_t count() const;

 private:
  mutable std::mutex mutex_;
  std::set<std::int64_t> images_;
};

/// Says once of a source that EXIF has an image turned and the source does not.
void note_orientation(const ImageSource& source, std::int64_t image, const StoredImage& stored);

struct SampleOptions {
  std::vector<const TransformChain*> views;  // behind the image, in the order of SampleImages
  UnreadableImages* unreadable =
      nullptr;  // null: an image that cannot be read is an error, as a DataError is
  /// Instead of an image that cannot be read, the next one of the source that can be; else there is none.
  bool replaces = false;
};

/// The samples of `source` under `transforms`; they and what the options name must outlive the function.
SampleFunction sample_function(const ImageSource& source, const TransformChain& transforms,
                               const SampleOptions& options = {});

}  // namespace rewire::runtime
