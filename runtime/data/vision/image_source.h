// Sources of labelled images. Each is a file of sources/ and a row of catalog/sources.cpp. It gives bytes,
// which transforms (transform.h) turn into floats.
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

/// An image as stored: u8 [channels, height, width].
struct StoredImage {
  std::span<const std::uint8_t> pixels;
  std::int64_t height = 0, width = 0;
  int orientation = 1;      // EXIF's, 1 to 8; 1: as stored, or unknown
  bool is_upright = false;  // the source has turned it upright
};

/// The memory into which a thread reads images. A source's pixels are here or in its own memory.
struct ReadBuffer {
  std::vector<std::uint8_t> pixels;
  std::vector<std::byte> file;  // contents of an image's own file
  double decoding_seconds = 0;  // spent on decoding `file`, over all images
};

/// Images as bytes, each with a label. Samples have the fields `image` u8 [channels, height, width], `label`
/// i64 [] and further_fields().
class ImageSource : public Source {
 public:
  /// The shape of each image: [channels, height, width]; height and width are 0 if each image has its own.
  virtual ir::Shape shape() const = 0;
  virtual std::int64_t label(std::int64_t index) const = 0;
  /// Decodes an image, which is valid until the buffer is read into again. Pixels outside the `needed` box
  /// may have any value; null: all are needed. Throws UserError naming an unreadable image.
  virtual StoredImage decode(std::int64_t index, ReadBuffer& buffer, const BoxFunction& needed) const = 0;
  /// The class names by label, if the data has them; else none.
  std::vector<std::string> class_names() const override { return {}; }
  /// The fields besides image and label. Boxes are f32 [n, 4]: left, top, right, bottom in pixels of the
  /// image that decode() gives. read_further() fills each field for every image, with extents of 0 if an
  /// image has none.
  virtual std::vector<Field> further_fields() const { return {}; }
  virtual void read_further(std::int64_t /*index*/, Sample& /*sample*/) const {}

  std::vector<Field> fields() const final;
  /// Reads the whole image.
  void read(std::int64_t index, Sample& sample) const final;
  std::string sample_name(std::int64_t index) const override;
  /// The identity by names and labels, without the pixels (see fingerprint).
  DataIdentity identity() const final;
  /// Makes the pipeline of its images under [transforms] (image_pipeline.h).
  std::unique_ptr<Pipeline> pipeline(const PipelineContext& context) const final;
};

/// Another source's images with a change: methods that are not overridden forward to that source.
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

/// The images that a network asks for.
struct ImageContext {
  Split split = Split::train;
  ir::Shape image;  // [channels, height, width] of the network, for a source without a size of its own
  std::int64_t classes = 0;  // labels are below it; 0: labels are not needed, or any will do
  std::uint64_t seed = 0;    // the run's
};
/// Converts a network's request to one for images. Throws UserError if it has none.
ImageContext image_context(const SourceContext& context);
/// Returns the request of a network that takes images and, unless `classes` is 0, labels.
SourceContext source_context(const ImageContext& context);

/// The names of images, labels and class probabilities, in a batch and in a network's inputs.
inline constexpr std::string_view kImageField = "image", kLabelField = "label", kTargetField = "target";

/// Throws UserError if the model has no class for a label, with the first such sample and the range of all
/// labels. `classes` 0 allows every label from 0 on. The message begins with `source`.
void check_labels(std::string_view source, std::int64_t count,
                  const std::function<std::int64_t(std::int64_t)>& label, std::int64_t classes);

}  // namespace rewire::runtime
