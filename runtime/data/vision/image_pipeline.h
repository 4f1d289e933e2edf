// The images of a source as a network sees them: decoded as far as transforms look at them, each chain of transforms making floats
// of them; their labels, and boxes that move as the pixels do.
#pragma once

#include <memory>
#include <vector>

#include "runtime/data/pipeline.h"
#include "runtime/data/vision/image_source.h"
#include "runtime/data/vision/transform.h"

namespace rewire::runtime {

/// A row holds the image f32 [channels, height, width], its label i64 [], the further fields that are asked for, and of each view
/// its copies. `target` f32 [B, classes], where it is asked for, is made of whole batches: 1 for the label, and what MixUp and
/// CutMix make of it.
///
/// Boxes end up in pixels of the network's image, cut off at its edges. Of a padded field of boxes `NAME_mask` is also 0 for a box
/// of which nothing is left; so whatever else belongs to a box stays at its place.
class ImagePipeline final : public Pipeline {
 public:
  /// UserError naming the key, the field or the view.
  ImagePipeline(const ImageSource& source, const PipelineContext& context);

  std::vector<RowField> fields() const override;
  void read(const Visit& visit, SampleRow row) const override;
  std::vector<RowField> made() const override;
  void finish(Batch& batch) const override;

  const ImageSource& source() const { return source_; }
  /// Of the image.
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
  std::int64_t classes_ = 0;        // of targets; 0: there are none
  std::vector<FieldLink> further_;  // beside image and label
  std::vector<View> views_;
};

/// Says once of a source that EXIF has an image turned and the source does not.
void note_orientation(const ImageSource& source, std::int64_t image, const StoredImage& stored);

}  // namespace rewire::runtime
