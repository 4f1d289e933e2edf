// The pipeline for images. It decodes as much of an image as the transforms read, and chains of transforms
// make floats of it. Labels come along, and boxes move with the pixels.
#pragma once

#include <memory>
#include <vector>

#include "runtime/data/pipeline.h"
#include "runtime/data/vision/image_source.h"
#include "runtime/data/vision/transform.h"

namespace rewire::runtime {

/// The pipeline of images. A row holds the image f32 [channels, height, width] (or u8: PipelineContext::bytes), its label i64 [], further
/// fields that are asked for, and the copies of each view. `target` f32 [B, classes], if asked for, is made
/// per batch: 1 for the label, changed by MixUp and CutMix.
///
/// Boxes end up in pixels of the network's image, clipped at its edges. `NAME_mask` of a padded field of
/// boxes is also 0 for a box of which nothing is left, so that other fields of a box keep its index.
class ImagePipeline final : public Pipeline {
 public:
  /// Throws UserError naming the key, the field or the view.
  ImagePipeline(const ImageSource& source, const PipelineContext& context);

  std::vector<RowField> fields() const override;
  void read(const Visit& visit, SampleRow row) const override;
  std::vector<RowField> made() const override;
  void finish(Batch& batch) const override;

  const ImageSource& source() const { return source_; }
  /// The transforms of the image.
  const TransformChain& transforms() const { return *transforms_; }

 private:
  void add_view(const ViewSpec& view, const PipelineContext& context);
  void read_further(const Visit& visit, const StoredImage& stored, SampleRow row) const;

  struct View {
    RowField field;
    std::vector<std::unique_ptr<const TransformChain>> copies;
  };

  const ImageSource& source_;
  RowField image_;
  std::unique_ptr<const TransformChain> transforms_;
  std::int64_t classes_ = 0;        // classes in a target; 0: no targets
  std::vector<FieldLink> further_;  // besides image and label
  std::vector<View> views_;
};

/// Warns once per source that EXIF has an image turned and the source does not turn it.
void note_orientation(const ImageSource& source, std::int64_t image, const StoredImage& stored);

}  // namespace rewire::runtime
