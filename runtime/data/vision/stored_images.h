// A source whose images are all in memory, as decoded bytes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/data/vision/image_source.h"

namespace rewire::runtime {

class StoredImages final : public ImageSource {
 public:
  /// `shape` is [channels, height, width], `pixels` [labels.size(), channels, height, width]; `classes` has
  /// names, or none.
  StoredImages(std::string name, ir::Shape shape, std::vector<std::uint8_t> pixels,
               std::vector<std::int32_t> labels, std::vector<std::string> classes = {})
      : name_(std::move(name)),
        shape_(std::move(shape)),
        size_(static_cast<std::size_t>(ir::element_count(shape_))),
        pixels_(std::move(pixels)),
        labels_(std::move(labels)),
        classes_(std::move(classes)) {}

  std::string name() const override { return name_; }
  std::int64_t count() const override { return static_cast<std::int64_t>(labels_.size()); }
  ir::Shape shape() const override { return shape_; }
  std::int64_t label(std::int64_t index) const override { return labels_[static_cast<std::size_t>(index)]; }
  std::vector<std::string> class_names() const override { return classes_; }
  StoredImage decode(std::int64_t index, ReadBuffer&, const BoxFunction&) const override {
    return {std::span(pixels_).subspan(static_cast<std::size_t>(index) * size_, size_), shape_[1], shape_[2]};
  }

 private:
  std::string name_;
  ir::Shape shape_;
  std::size_t size_;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::int32_t> labels_;
  std::vector<std::string> classes_;
};

}  // namespace rewire::runtime
