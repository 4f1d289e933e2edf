#include "runtime/data/vision/image_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "ir/error.h"
#include "runtime/data/vision/presets.h"
#include "runtime/device/log.h"

namespace rewire::runtime {
namespace {

const Field& asked_image(const ImageSource& source, const std::vector<Field>& asked) {
  const auto found = std::ranges::find(asked, FieldKind::image, &Field::kind);
  if (found == asked.end()) user_error("{} has images, but the network takes none", source.name());
  return *found;
}

std::span<float> floats(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

/// Makes the field's rows bytes, if the transforms end with a table of bytes.
void take_bytes_of(const TransformChain& transforms, RowField& field) {
  const std::span<const float> values = transforms.byte_values();
  if (values.empty()) return;
  field.type.dtype = ir::DType::u8;
  field.byte_values.assign(values.begin(), values.end());
}

void apply_into(const TransformChain& transforms, const RowField& field, const StoredImage& stored,
                std::span<std::byte> row, const Visit& visit, std::int64_t sample) {
  if (field.byte_values.empty()) return transforms.apply(stored, floats(row), visit.epoch, sample);
  transforms.apply_to_bytes(stored, {reinterpret_cast<std::uint8_t*>(row.data()), row.size()}, visit.epoch,
                            sample);
}

/// Returns true if something of the box is left.
bool has_area(const float* box) {
  return box[2] > box[0] && box[3] > box[1];
}

}  // namespace

ImagePipeline::ImagePipeline(const ImageSource& source, const PipelineContext& context) : source_(source) {
  const Field& image = asked_image(source, context.asked);
  image_ = {image.name, {ir::DType::f32, image.shape}};
  std::vector<Field> others;
  for (const Field& asked : context.asked) {
    if (asked.name == kTargetField) classes_ = asked.shape.at(0);
    if (&asked != &image && asked.name != kLabelField && asked.name != kTargetField) others.push_back(asked);
  }
  further_ = link_fields(source.name(), source.further_fields(), others);
  const auto boxes = std::ranges::find(further_, FieldKind::boxes, &FieldLink::kind);
  const bool has_boxes = boxes != further_.end();
  for (const FieldLink& link : further_) {
    const bool is_list = link.is_mask || (link.asked.dtype == ir::DType::f32 &&
                                          link.asked.shape.size() == 2 && link.asked.shape[1] == 4);
    if (link.kind == FieldKind::boxes && !is_list)
      user_error("{}: boxes are f32[n,4]; the network takes '{}' {}", source.name(), link.asked.name,
                 to_string(link.asked));
  }
  transforms_ = std::make_unique<const TransformChain>(
      context.transforms, TransformContext{source.shape(), image.shape, context.training, has_boxes},
      context.seed);
  if (transforms_->shape() != image.shape) {
    user_error(
        "{}: its images are {} (channels, height, width), but the network takes {}: set transforms.resize, "
        "or match model.image and model.channels to the data",
        source.name(), ir::to_string(transforms_->shape()), ir::to_string(image.shape));
  }
  if (context.bytes) take_bytes_of(*transforms_, image_);
  if (transforms_->changes_batches() && classes_ == 0) {
    user_error("transforms.mixup and transforms.cutmix blend labels: set objective.targets=probabilities");
  }
  const auto fixed = std::ranges::find_if(further_, [](const FieldLink& link) {
    return link.kind == FieldKind::mask || link.kind == FieldKind::latent || link.kind == FieldKind::image;
  });
  if (fixed != further_.end() && !transforms_->mover().empty()) {
    user_error("the transform {} moves pixels but not '{}': switch it off", transforms_->mover(),
               fixed->field);
  }
  if (transforms_->changes_batches() && has_boxes)
    user_error(
        "transforms.mixup and transforms.cutmix blend images, so boxes would not match: switch them off");
  for (const ViewSpec& view : context.views) {
    try {
      add_view(view, context);
    } catch (const UserError& error) {
      user_error("the view '{}': {}", view.name, error.what());
    }
  }
}

void ImagePipeline::add_view(const ViewSpec& view, const PipelineContext& context) {
  ir::Shape shape = image_.type.shape;
  if (view.size != 0) shape[1] = shape[2] = view.size;
  const ir::Attributes values = overlay(context.transforms, view.values);
  View made{{view.name, {ir::DType::f32, shape}, view.count}, {}};
  for (std::int64_t copy = 0; copy < view.count; ++copy) {
    made.copies.push_back(
        std::make_unique<const TransformChain>(values, TransformContext{source_.shape(), shape, true},
                                               context.seed, fmt::format("{}/{}", view.name, copy)));
  }
  const ir::Shape& gives = made.copies.back()->shape();
  if (gives != shape) {
    user_error("its images are {} (channels, height, width), but {} is required: set its resize",
               ir::to_string(gives), ir::to_string(shape));
  }
  if (context.bytes) take_bytes_of(*made.copies.back(), made.field);
  views_.push_back(std::move(made));
}

std::vector<RowField> ImagePipeline::fields() const {
  std::vector<RowField> fields = {image_, {std::string(kLabelField), {ir::DType::i64, {}}}};
  for (const FieldLink& link : further_)
    fields.push_back({link.asked.name, {link.asked.dtype, link.asked.shape}});
  for (const View& view : views_) fields.push_back(view.field);
  return fields;
}

std::vector<RowField> ImagePipeline::made() const {
  if (classes_ == 0) return {};
  return {{std::string(kTargetField), {ir::DType::f32, {classes_}}}};
}

void ImagePipeline::read(const Visit& visit, SampleRow row) const {
  thread_local ReadBuffer buffer;
  const std::int64_t sample = visit.repeat * source_.count() + visit.sample;
  BoxFunction needed;  // views look at other parts than the image does
  if (views_.empty()) {
    needed = [&](std::int64_t height, std::int64_t width) {
      return transforms_->looks_at(height, width, visit.epoch, sample);
    };
  }
  const StoredImage stored = source_.decode(visit.sample, buffer, needed);
  note_orientation(source_, visit.sample, stored);
  try {
    apply_into(*transforms_, image_, stored, row[0], visit, sample);
    std::size_t at = 2 + further_.size();
    for (const View& view : views_) {
      for (const auto& copy : view.copies) apply_into(*copy, view.field, stored, row[at++], visit, sample);
    }
  } catch (const ImageSizeError& error) {
    throw ImageSizeError(fmt::format("{}: {}", source_.sample_name(visit.sample), error.what()));
  }
  const std::int64_t label = source_.label(visit.sample);
  std::memcpy(row[1].data(), &label, sizeof label);
  if (!further_.empty()) read_further(visit, stored, row);
}

void ImagePipeline::read_further(const Visit& visit, const StoredImage& stored, SampleRow row) const {
  thread_local Sample sample;
  sample.clear();  // it held another image, or another source's
  source_.read_further(visit.sample, sample);
  const std::int64_t number = visit.repeat * source_.count() + visit.sample;
  std::string_view moved;
  for (std::size_t i = 0; i < further_.size(); ++i) {
    const FieldLink& link = further_[i];
    if (link.kind == FieldKind::boxes && moved != link.field) {
      transforms_->move_boxes(sample.at(link.field).as<float>(), stored.height, stored.width, visit.epoch,
                              number);
      moved = link.field;
    }
    write_field(link, sample, row[2 + i], source_, visit.sample);
    if (!link.is_mask || link.kind != FieldKind::boxes) continue;
    const std::span<float> mask = floats(row[2 + i]);
    const std::span<const float> boxes = std::as_const(sample.at(link.field)).as<const float>();
    for (std::size_t k = 0; k < std::min(mask.size(), boxes.size() / 4); ++k) {
      if (!has_area(boxes.data() + 4 * k)) mask[k] = 0;
    }
  }
}

void ImagePipeline::finish(Batch& batch) const {
  if (classes_ == 0) return;
  const std::span<const std::int64_t> labels = batch.tensors.at(std::string(kLabelField)).as<std::int64_t>();
  const std::span<float> targets = batch.tensors.at(std::string(kTargetField)).as<float>();
  std::ranges::fill(targets, 0.0F);
  for (std::size_t row = 0; row < labels.size(); ++row)
    targets[row * static_cast<std::size_t>(classes_) + static_cast<std::size_t>(labels[row])] = 1;
  if (transforms_->changes_batches()) {
    transforms_->apply_to_batch(batch.tensors.at(image_.name).as<float>(), targets, std::ssize(labels),
                                batch.epoch, batch.index);
  }
}

void note_orientation(const ImageSource& source, std::int64_t image, const StoredImage& stored) {
  if (stored.orientation == 1 || stored.is_upright) return;
  write_log_once(
      LogLevel::warning, "data.exif " + source.name(),
      fmt::format(
          "{}: its EXIF orientation {} is ignored, as in all images: set data.exif=apply to rotate them",
          source.sample_name(image), stored.orientation));
}

}  // namespace rewire::runtime
