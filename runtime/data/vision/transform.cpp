// The chain of transforms. The first reads the stored bytes, the last writes into the batch, and those
// between alternate between two buffers.
#include "runtime/data/vision/transform.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/error.h"

namespace rewire::runtime {

TransformChain::TransformChain(const ir::Attributes& values, TransformContext context, std::uint64_t seed,
                               std::string_view view)
    : training_(context.training), seed_(seed) {
  ir::DType elements = ir::DType::u8;
  // If sizes differ and no transform takes any size, images must have the network's size.
  if (context.image[1] == 0)
    std::copy(context.network.begin() + 1, context.network.end(), context.image.begin() + 1);
  for (const TransformRow* row : transforms()) {
    if (row->training_only && !training_) continue;
    const ir::Attributes settled = ir::settle(row->schema, values, "transforms");
    std::string numbers =
        row->stream.empty() ? fmt::format("data.augment.{}", row->name) : std::string(row->stream);
    if (!view.empty()) numbers += fmt::format("/{}", view);
    const std::uint64_t stream = ir::stream_hash(numbers);
    if (row->make_batch != nullptr) {
      if (!view.empty()) continue;  // only the image is mixed
      if (auto mix = row->make_batch(settled, context.network))
        batch_links_.push_back({std::move(mix), stream});
      continue;
    }
    std::unique_ptr<Transform> transform = row->make(settled, context);
    if (transform == nullptr) continue;
    if (mover_.empty() && std::ranges::find(row->fields, FieldKind::boxes) != row->fields.end())
      mover_ = row->name;
    if (transform->reads() != elements)
      internal_error("the transform {} is on the wrong side of normalize", row->name);
    if (links_.empty() && !transform->takes_any_size()) {
      height_ = context.image[1];
      width_ = context.image[2];
    }
    elements = transform->writes();
    context.image = transform->shape();
    const auto bytes = static_cast<std::size_t>(ir::TensorType{elements, context.image}.bytes());
    links_.push_back({std::move(transform), context.image, stream, bytes});
  }
  if (elements != ir::DType::f32) internal_error("no transform converts the pixels to floats");
  shape_ = context.image;
}

Box TransformChain::looks_at(std::int64_t height, std::int64_t width, std::int64_t epoch,
                             std::int64_t sample) const {
  const Link& first = links_.front();
  return first.transform->looks_at(height, width, random_of(first.stream, epoch, sample));
}

std::span<const float> TransformChain::byte_values() const {
  if (changes_batches()) return {};
  return links_.back().transform->byte_values();
}

void TransformChain::run(std::size_t count, const StoredImage& image, std::span<std::byte> out,
                         std::int64_t epoch, std::int64_t sample) const {
  if (height_ != 0 && (image.height != height_ || image.width != width_)) {
    throw ImageSizeError(
        fmt::format("{} x {} pixels (height x width), but {} x {} are needed: set transforms.resize, and "
                    "transforms.crop_pct=1 unless evaluation should crop the centre",
                    image.height, image.width, height_, width_));
  }
  // The links before the last alternate between two buffers, each as large as their
  // largest result, in whole floats.
  std::size_t size = 0;
  for (std::size_t i = 0; i + 1 < count; ++i) size = std::max(size, links_[i].bytes);
  size = (size + sizeof(float) - 1) / sizeof(float) * sizeof(float);
  const auto buffers = std::make_unique_for_overwrite<std::byte[]>(2 * size);
  ImageBytes in{std::as_bytes(image.pixels), image.height, image.width};
  if (count == 0) std::ranges::copy(in.bytes, out.begin());
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [transform, shape, stream, bytes] = links_[i];
    const std::span<std::byte> made = i + 1 == count ? out : std::span(buffers.get() + i % 2 * size, bytes);
    transform->run(in, made, random_of(stream, epoch, sample));
    in = {made, shape[1], shape[2]};
  }
}

void TransformChain::move_boxes(std::span<float> boxes, std::int64_t height, std::int64_t width,
                                std::int64_t epoch, std::int64_t sample) const {
  for (const auto& [transform, shape, stream, bytes] : links_) {
    transform->move_boxes(boxes, height, width, random_of(stream, epoch, sample));
    height = shape[1];
    width = shape[2];
  }
  for (std::size_t i = 0; i < boxes.size(); ++i)
    boxes[i] = std::clamp(boxes[i], 0.0F, static_cast<float>(i % 2 == 0 ? width : height));
}

void TransformChain::apply_to_batch(std::span<float> images, std::span<float> targets, std::int64_t batch,
                                    std::int64_t epoch, std::int64_t index) const {
  for (const auto& [transform, stream] : batch_links_)
    transform->run(images, targets, batch, random_of(stream, epoch, index));
}

}  // namespace rewire::runtime
