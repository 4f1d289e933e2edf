// Samples that cannot be read: what takes their place, and how many there are.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string_view>

#include "runtime/data/pipeline.h"
#include "runtime/data/source.h"

namespace rewire::runtime {

/// As a ReadFunction; false where there is no such sample: the row may then hold anything.
using SampleFunction = std::function<bool(const Visit& visit, SampleRow row)>;

/// The samples of a source that were left out because they cannot be read. The first of them are told as warnings.
class UnreadableSamples {
 public:
  /// One that is known already is not told again.
  void add(std::int64_t sample, std::string_view why);
  std::int64_t count() const;

 private:
  mutable std::mutex mutex_;
  std::set<std::int64_t> samples_;
};

struct SampleOptions {
  UnreadableSamples* unreadable =
      nullptr;  // null: a sample that cannot be read is an error, as a DataError is
  /// Instead of a sample that cannot be read, the next one of the source that can be; else there is none.
  bool replaces = false;
};

/// `read` writes the rows of `source`'s samples. All must outlive the function.
SampleFunction sample_function(const Source& source, ReadFunction read, const SampleOptions& options = {});

}  // namespace rewire::runtime
