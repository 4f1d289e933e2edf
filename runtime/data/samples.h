// Counts and replaces samples that cannot be read.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

#include "runtime/data/pipeline.h"
#include "runtime/data/source.h"

namespace rewire::runtime {

/// Reads a row as a ReadFunction does. Returns false if there is no such sample; the row is then undefined.
using SampleFunction = std::function<bool(const Visit& visit, SampleRow row)>;

/// The samples of a source that were left out because they cannot be read. The first of them are logged as
/// warnings.
class UnreadableSamples {
 public:
  /// Adds a sample. One that is known already is not logged again.
  void add(std::int64_t sample, std::string_view why);
  std::int64_t count() const;
  std::vector<std::int64_t> samples() const;

 private:
  mutable std::mutex mutex_;
  std::set<std::int64_t> samples_;
};

struct SampleOptions {
  UnreadableSamples* unreadable =
      nullptr;  // null: an unreadable sample is an error, as every DataError always is
  /// Takes the source's next readable sample in place of an unreadable one; false: it is left out.
  bool replaces = false;
};

/// Makes a sample function from `read`, which writes the rows of `source`'s samples. All must outlive the
/// function.
SampleFunction sample_function(const Source& source, ReadFunction read, const SampleOptions& options = {});

}  // namespace rewire::runtime
