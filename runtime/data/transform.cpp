// The chain of transforms: the first reads the stored bytes, the last writes into the batch, those between
// take turns with two buffers.
#include "runtime/data/transform.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/error.h"

namespace rewire::runtime {

TransformChain::TransformChain(const ir::Attributes& values, ir::Shape image, bool training,
                               std::uint64_t seed)
    : shape_(std::move(image)), training_(training), seed_(seed) {
  ir::DType elements = ir::DType::u8;
  for (const TransformRow* row : transforms()) {
    if (row->training_only && !training) continue;
    const ir::Attributes settled = ir::settle(row->schema, values, "transforms");
    std::unique_ptr<Transform> transform = row->make(settled, shape_);
    if (transform == nullptr) continue;
    if (transform->reads() != elements)
      internal_error("the transform {} stands on the wrong side of normalize", row->name);
    elements = transform->writes();
    shape_ = transform->shape();
    const std::string stream =
        row->stream.empty() ? fmt::format("data.augment.{}", row->name) : std::string(row->stream);
    const auto bytes = static_cast<std::size_t>(ir::TensorType{elements, shape_}.bytes());
    links_.push_back({std::move(transform), ir::stream_hash(stream), bytes});
  }
  if (elements != ir::DType::f32) internal_error("no transform makes floats of the pixels");
}

void TransformChain::apply(std::span<const std::uint8_t> pixels, std::span<float> image, std::int64_t epoch,
                           std::int64_t sample) const {
  // What the links before the last make, in turns: as large as the largest of them, whole floats.
  std::size_t size = 0;
  for (std::size_t i = 0; i + 1 < links_.size(); ++i) size = std::max(size, links_[i].bytes);
  size = (size + sizeof(float) - 1) / sizeof(float) * sizeof(float);
  const auto buffers = std::make_unique_for_overwrite<std::byte[]>(2 * size);
  const auto step = static_cast<std::uint32_t>(training_ ? epoch : 0);
  std::span<const std::byte> in = std::as_bytes(pixels);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const auto& [transform, stream, bytes] = links_[i];
    const bool is_last = i + 1 == links_.size();
    const std::span<std::byte> out =
        is_last ? std::as_writable_bytes(image) : std::span(buffers.get() + i % 2 * size, bytes);
    transform->run(in, out, {{seed_, step, stream}, static_cast<std::uint64_t>(sample)});
    in = out;
  }
}

}  // namespace rewire::runtime
