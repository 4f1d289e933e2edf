// Times the data of a recipe without a network: the loader as in training, and the parts of its work on one thread.
#pragma once

#include <cstdint>

#include "runtime/network/data_feed.h"
#include "runtime/recipe/recipe.h"

namespace rewire::cli {

/// The batches that the loader's threads prepared ahead, as in training.
struct LoaderTimes {
  std::int64_t batches = 0, images = 0;
  double seconds = 0, processor = 0;  // processor: of all threads
};
/// Takes batches for so long, after `warm_up` uncounted ones.
LoaderTimes time_loader(const runtime::DataFeed& data, std::int64_t warm_up, double seconds);

/// The images read and transformed on this thread alone, and the seconds of each part. `decode` is a part of `read`.
struct AloneTimes {
  std::int64_t images = 0, batches = 0;
  double read = 0, decode = 0, transforms = 0, batch_transforms = 0;
};
/// Takes images in the order of the first epoch for so long, then times MixUp and CutMix if they are on. Throws UserError
/// if the data are not labelled images.
AloneTimes time_alone(const runtime::DataFeed& data, const runtime::NetworkFace& face, bool training,
                      const runtime::Recipe& recipe, double seconds);

}  // namespace rewire::cli
