#include "runtime/data/vision/image_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/error.h"
#include "runtime/data/vision/image_pipeline.h"

namespace rewire::runtime {

std::vector<Field> ImageSource::fields() const {
  ir::Shape image = shape();
  for (std::size_t axis = 1; axis < image.size(); ++axis) {
    if (image[axis] == 0) image[axis] = kRagged;
  }
  const std::vector<std::string> names = class_names();
  std::vector<Field> fields = {
      {std::string(kImageField), ir::DType::u8, std::move(image), FieldKind::image},
      {std::string(kLabelField), ir::DType::i64, {}, FieldKind::category, std::ssize(names), names}};
  for (Field& field : further_fields()) fields.push_back(std::move(field));
  return fields;
}

void ImageSource::read(std::int64_t index, Sample& sample) const {
  thread_local ReadBuffer buffer;
  const StoredImage stored = decode(index, buffer, nullptr);
  HostTensor& image =
      place_in(sample, std::string(kImageField), {ir::DType::u8, {shape()[0], stored.height, stored.width}});
  std::ranges::copy(stored.pixels, image.as<std::uint8_t>().begin());
  place_in(sample, std::string(kLabelField), {ir::DType::i64, {}}).as<std::int64_t>()[0] = label(index);
  read_further(index, sample);
}

std::string ImageSource::sample_name(std::int64_t index) const {
  return fmt::format("{}: image {}", name(), index);
}

DataIdentity ImageSource::identity() const {
  return identity_by(count(), class_names(), [this, root = name()](std::int64_t i) {
    return fmt::format("{}\t{}\n", relative_name(sample_name(i), root), label(i));
  });
}

std::unique_ptr<Pipeline> ImageSource::pipeline(const PipelineContext& context) const {
  return std::make_unique<ImagePipeline>(*this, context);
}

ImageContext image_context(const SourceContext& context) {
  ImageContext images{context.split, {}, 0, context.seed};
  for (const Field& field : context.asked) {
    if (field.kind == FieldKind::image && images.image.empty()) images.image = field.shape;
    if (field.name == kTargetField) images.classes = field.categories;
  }
  for (const Field& field : context.asked) {
    if (field.name == kLabelField && field.categories > 0) images.classes = field.categories;
  }
  if (images.image.size() != 3)
    user_error("the data are images, but the network takes no image f32[batch,channels,height,width]");
  return images;
}

SourceContext source_context(const ImageContext& context) {
  SourceContext asks{context.split,
                     {{std::string(kImageField), ir::DType::f32, context.image, FieldKind::image}},
                     context.seed};
  if (context.classes > 0)
    asks.asked.push_back(
        {std::string(kLabelField), ir::DType::i64, {}, FieldKind::category, context.classes});
  return asks;
}

void check_labels(std::string_view source, std::int64_t count,
                  const std::function<std::int64_t(std::int64_t)>& label, std::int64_t classes) {
  std::int64_t wrong = count, least = std::numeric_limits<std::int64_t>::max(), most = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t value = label(i);
    least = std::min(least, value);
    most = std::max(most, value);
    if (value < 0 || (classes > 0 && value >= classes)) wrong = std::min(wrong, i);
  }
  if (wrong == count) return;
  const std::string found = fmt::format("{}: sample {} has label {}, of labels from {} to {}", source, wrong,
                                        label(wrong), least, most);
  if (least < 0) user_error("{}: labels count from 0", found);
  user_error("{}, but the model has {} class{}: set model.classes={}{}", found, classes,
             classes == 1 ? "" : "es", most + 1, least == 1 ? "; class 0 then has no samples" : "");
}

}  // namespace rewire::runtime
