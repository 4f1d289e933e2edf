// Sources of labelled images. One is a file of sources/ and a row of catalog/sources.cpp; it hands out bytes, which transforms
// (transform.h) make floats of.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/data/source.h"
#include "runtime/data/vision/box.h"

namespace rewire::runtime {

/// An image as it was stored: u8 [channels, height, width].
struct StoredImage {
  std::span<const std::uint8_t> pixels;
  std::int64_t height = 0, width = 0;
  int orientation = 1;      // EXIF's, 1 to 8; 1: as it is stored, or nothing is said
  bool is_upright = false;  // the source has turned it so
};

/// What a thread reads images into: the pixels that a source gives stand here or in the source's own memory.
struct ReadBuffer {
  std::vector<std::uint8_t> pixels;
  std::vector<std::byte> file;  // of an image that is a file of its own
};

/// Images as bytes, each with a label. Its samples have the fields `image` u8 [channels, height, width], `label` i64 [] and what
/// further_fields() tells.
class ImageSource : public Source {
 public:
  /// Of each image: [channels, height, width]; height and width are 0 where each has its own.
  virtual ir::Shape shape() const = 0;
  virtual std::int64_t label(std::int64_t index) const = 0;
  /// Valid until the buffer is read into again. Outside of the box that is `needed` pixels may have any value; null: all are needed.
  /// UserError naming the image that cannot be read.
  virtual StoredImage decode(std::int64_t index, ReadBuffer& buffer, const BoxFunction& needed) const = 0;
  /// By label, where the data names them; else none.
  std::vector<std::string> class_names() const override { return {}; }
  /// Boxes are f32 [n, 4], each left, top, right, bottom in pixels of the image that decode() gives. read_further() fills each of
  /// these fields for every image, with extents of 0 where an image has none.
  virtual std::vector<Field> further_fields() const { return {}; }
  virtual void read_further(std::int64_t /*index*/, Sample& /*sample*/) const {}

  std::vector<Field> fields() const final;
  /// The image whole.
  void read(std::int64_t index, Sample& sample) const final;
  std::string sample_name(std::int64_t index) const override;
  /// By names and labels. What the pixels are is not part of it (fingerprint).
  DataIdentity identity() const final;
  /// Its images under [transforms] (image_pipeline.h).
  std::unique_ptr<Pipeline> pipeline(const PipelineContext& context) const final;
};

/// Another source's images with something else about them: what is not overridden is the other's.
class ImagesOver : public ImageSource {
 public:
  explicit ImagesOver(std::unique_ptr<ImageSource> source) : source_(std::move(source)) {}
  std::string name() const override { return source_->name(); }
  std::int64_t count() const override { return source_->count(); }
  ir::Shape shape() const override { return source_->shape(); }
  std::int64_t label(std::int64_t index) const override { return source_->label(index); }
  StoredImage decode(std::int64_t index, ReadBuffer& buffer, const BoxFunction& needed) const override {
    return source_->decode(index, buffer, needed);
  }
  std::vector<std::string> class_names() const override { return source_->class_names(); }
  std::vector<Field> further_fields() const override { return source_->further_fields(); }
  void read_further(std::int64_t index, Sample& sample) const override {
    source_->read_further(index, sample);
  }
  std::string sample_name(std::int64_t index) const override { return source_->sample_name(index); }
  std::int64_t origin(std::int64_t index) const override { return source_->origin(index); }
  std::int64_t origins() const override { return source_->origins(); }
  SourceNotes notes() const override { return source_->notes(); }
  std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch) const override {
    return source_->order(seed, epoch);
  }
  std::string fingerprint() const override { return source_->fingerprint(); }

 protected:
  const ImageSource& source() const { return *source_; }

 private:
  std::unique_ptr<ImageSource> source_;
};

/// What a network asks of its images.
struct ImageContext {
  Split split = Split::train;
  ir::Shape image;  // [channels, height, width] that it takes, for a source that has no size of its own
  std::int64_t classes = 0;  // labels lie below it; 0: nobody asks for labels, or any will do
  std::uint64_t seed = 0;    // the run's
};
/// UserError where the network asks for no images.
ImageContext image_context(const SourceContext& context);
/// The same, as a network asks that takes images and, unless `classes` is 0, labels.
SourceContext source_context(const ImageContext& context);

/// How images, labels and the probabilities of classes are called, in a batch and where a network asks for them.
inline constexpr std::string_view kImageField = "image", kLabelField = "label", kTargetField = "target";

/// UserError where the model has no class for a label, with the first such sample and the range of all labels;
/// `classes` 0: it has one for all. `source` begins it.
void check_labels(std::string_view source, std::int64_t count,
                  const std::function<std::int64_t(std::int64_t)>& label, std::int64_t classes);

}  // namespace rewire::runtime
