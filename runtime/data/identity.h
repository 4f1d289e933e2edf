// The identity of a data set, by which a run recognises the data that it was trained on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

struct DataIdentity {
  std::int64_t count = 0;
  std::vector<std::string> classes;  // names by label, as they are shown; empty if unnamed
  std::string digest;  // BLAKE3 of a line per sample, such as name and label: 64 hexadecimal digits
  bool operator==(const DataIdentity&) const = default;
};

/// Computes the identity of `count` samples. `line` identifies a sample and ends with a newline.
DataIdentity identity_by(std::int64_t count, const std::vector<std::string>& classes,
                         const std::function<std::string(std::int64_t index)>& line);
/// Returns a sample's name relative to its source's, so that a moved folder is the same data.
std::string relative_name(std::string_view sample, std::string_view source);

/// Returns the first difference for messages, such as "50000 samples then, 25000 now"; "" if there is none.
/// `then` and `now` are the words for the two.
std::string difference(const DataIdentity& one, const DataIdentity& other, std::string_view then = "then",
                       std::string_view now = "now");

}  // namespace rewire::runtime
