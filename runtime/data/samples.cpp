#include "runtime/data/samples.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "runtime/device/log.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kMostTold = 10;

}  // namespace

void UnreadableSamples::add(std::int64_t sample, std::string_view why) {
  const std::lock_guard lock(mutex_);
  if (!samples_.insert(sample).second || samples_.size() > kMostTold) return;
  write_log(LogLevel::warning, fmt::format("left out: {}{}", why,
                                           samples_.size() == kMostTold ? "; others are only counted" : ""));
}

std::int64_t UnreadableSamples::count() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(samples_);
}

std::vector<std::int64_t> UnreadableSamples::samples() const {
  const std::lock_guard lock(mutex_);
  return {samples_.begin(), samples_.end()};
}

SampleFunction sample_function(const Source& source, ReadFunction read, const SampleOptions& options) {
  return [&source, read = std::move(read), options](const Visit& visit, SampleRow row) {
    if (options.unreadable == nullptr) {
      read(visit, row);
      return true;
    }
    const std::int64_t tries = options.replaces ? source.count() : 1;
    Visit at = visit;
    for (std::int64_t i = 0; i < tries; ++i) {
      at.sample = (visit.sample + i) % source.count();
      try {
        read(at, row);
        return true;
      } catch (const DataError&) {
        throw;
      } catch (const UserError& error) {
        options.unreadable->add(at.sample, error.what());
      }
    }
    if (options.replaces) user_error("{}: none of its samples can be read", source.name());
    return false;
  };
}

}  // namespace rewire::runtime
