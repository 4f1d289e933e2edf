// What makes a set of samples the one that a run has been trained on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

struct DataIdentity {
  std::int64_t count = 0;
  std::vector<std::string> classes;  // by label, where the data names them, as they are shown
  std::string digest;  // of a line for each sample, as its name and label: BLAKE3, 64 hexadecimal digits
  bool operator==(const DataIdentity&) const = default;
};

/// Of `count` samples. `line` gives what tells a sample from others, with a newline at its end.
DataIdentity identity_by(std::int64_t count, const std::vector<std::string>& classes,
                         const std::function<std::string(std::int64_t index)>& line);
/// A sample's name relative to its source's: a folder that has been moved is the same data.
std::string relative_name(std::string_view sample, std::string_view source);

/// "50000 images then, 25000 now", or what else differs, for messages; "" where nothing does. `then` and `now` are its
/// words for the two.
std::string difference(const DataIdentity& one, const DataIdentity& other, std::string_view then = "then",
                       std::string_view now = "now");

}  // namespace rewire::runtime
