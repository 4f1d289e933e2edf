// A source that knows how often it was read, for tests of what stands before it: image i is 1 x (2 + i % 3) x 4 and full
// of i. Images that are broken can be read in part.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <set>
#include <vector>

#include "ir/error.h"
#include "runtime/data/vision/image_source.h"

namespace rewire::runtime {

struct CountedImages final : ImageSource {
  explicit CountedImages(std::int64_t count, std::set<std::int64_t> damaged = {})
      : images(count), broken(std::move(damaged)) {}

  std::string name() const override { return "counted"; }
  std::int64_t count() const override { return images; }
  ir::Shape shape() const override { return {1, 0, 0}; }
  std::int64_t label(std::int64_t index) const override { return index % 3; }
  std::string sample_name(std::int64_t index) const override {
    return fmt::format("{}counted/{}/{}.png", root, index % 3, index / 3);
  }
  StoredImage decode(std::int64_t index, ReadBuffer& buffer, const BoxFunction& needed) const override {
    ++*reads;
    const bool is_part = needed != nullptr && needed(2 + index % 3, 4) == Box{0, 0, 1, 1};
    if (!is_part && broken.contains(index)) throw UserError(sample_name(index) + ": damaged");
    buffer.pixels.assign(static_cast<std::size_t>(4 * (2 + index % 3)), static_cast<std::uint8_t>(index));
    return {buffer.pixels, 2 + index % 3, 4};
  }
  std::string fingerprint() const override { return print; }

  std::int64_t images;
  std::set<std::int64_t> broken;
  std::string print = "abc", root;
  std::shared_ptr<std::atomic<int>> reads = std::make_shared<std::atomic<int>>(0);
};

}  // namespace rewire::runtime
