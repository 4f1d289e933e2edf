#include "runtime/data/samples.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "runtime/device/log.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kMostTold = 10;

class Samples {
 public:
  Samples(const ImageSource& source, const TransformChain& transforms, const SampleOptions& options)
      : source_(source), transforms_(transforms), options_(options) {}

  std::optional<std::int64_t> operator()(const Visit& visit, SampleImages images) const {
    if (options_.unreadable == nullptr) return make(visit, images);
    const std::int64_t tries = options_.replaces ? source_.count() : 1;
    Visit at = visit;
    for (std::int64_t i = 0; i < tries; ++i) {
      at.image = (visit.image + i) % source_.count();
      try {
        return make(at, images);
      } catch (const DataError&) {
        throw;
      } catch (const UserError& error) {
        options_.unreadable->add(at.image, error.what());
      }
    }
    if (options_.replaces) user_error("{}: not one of its images can be read", source_.name());
    return std::nullopt;
  }

 private:
  std::int64_t make(const Visit& visit, SampleImages images) const {
    thread_local ReadBuffer buffer;
    const std::int64_t sample = visit.repeat * source_.count() + visit.image;
    BoxFunction needed;  // views look at other parts than the image does
    if (options_.views.empty()) {
      needed = [&](std::int64_t height, std::int64_t width) {
        return transforms_.looks_at(height, width, visit.epoch, sample);
      };
    }
    const StoredImage stored = source_.read(visit.image, buffer, needed);
    note_orientation(source_, visit.image, stored);
    try {
      transforms_.apply(stored, images[0], visit.epoch, sample);
      for (std::size_t i = 0; i < options_.views.size(); ++i)
        options_.views[i]->apply(stored, images[i + 1], visit.epoch, sample);
    } catch (const ImageSizeError& error) {
      throw ImageSizeError(fmt::format("{}: {}", source_.image_name(visit.image), error.what()));
    }
    return source_.label(visit.image);
  }

  const ImageSource& source_;
  const TransformChain& transforms_;
  SampleOptions options_;
};

}  // namespace

void note_orientation(const ImageSource& source, std::int64_t image, const StoredImage& stored) {
  if (stored.orientation == 1 || stored.is_upright) return;
  write_log_once(
      LogLevel::warning, "data.exif " + source.name(),
      fmt::format("{}: EXIF gives it the orientation {}, which is ignored, here and in other images: "
                  "data.exif=apply turns them",
                  source.image_name(image), stored.orientation));
}

void UnreadableImages::add(std::int64_t image, std::string_view why) {
  const std::lock_guard lock(mutex_);
  if (!images_.insert(image).second || images_.size() > kMostTold) return;
  write_log(LogLevel::warning,
            fmt::format("left out: {}{}", why,
                        images_.size() == kMostTold ? "; further such images are only counted" : ""));
}

std::int64_t UnreadableImages::count() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(images_);
}

SampleFunction sample_function(const ImageSource& source, const TransformChain& transforms,
                               const SampleOptions& options) {
  return Samples(source, transforms, options);
}

}  // namespace rewire::runtime
