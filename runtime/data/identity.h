// What makes a set of samples the one that a run has been trained on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/source.h"

namespace rewire::runtime {

struct DataIdentity {
  std::int64_t count = 0;
  std::vector<std::string> classes;  // by label, where the data names them, as they are shown
  std::string digest;                // of each sample's name and label: BLAKE3, 64 hexadecimal digits
  bool operator==(const DataIdentity&) const = default;
};

/// The names are relative to the source's own: a folder that has been moved is the same data. What the pixels are is not
/// part of it (ImageSource::fingerprint).
DataIdentity identity_of(const ImageSource& source);

/// "50000 images then, 25000 now", or what else differs, for messages; "" where nothing does. `then` and `now` are its
/// words for the two.
std::string difference(const DataIdentity& one, const DataIdentity& other, std::string_view then = "then",
                       std::string_view now = "now");

}  // namespace rewire::runtime
