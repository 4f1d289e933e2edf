#pragma once

#include <cstdint>
#include <functional>

namespace rewire::runtime {

/// Part of an image, in pixels.
struct Box {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
  bool operator==(const Box&) const = default;
};

/// Returns the part of an image of that height and width that will be read; null: all of it.
using BoxFunction = std::function<Box(std::int64_t height, std::int64_t width)>;

}  // namespace rewire::runtime
