#include "runtime/data/vision/preview.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string_view>

#include "ir/error.h"
#include "ir/registry.h"
#include "runtime/data/vision/resample.h"
#include "runtime/data/vision/transform.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kPreviewColumns = 8, kTryColumns = 9;
constexpr std::int64_t kLeastCell = 96;  // pixels of the longer side

std::int64_t enlargement(std::int64_t height, std::int64_t width) {
  const std::int64_t longer = std::max(height, width);
  return std::max<std::int64_t>((kLeastCell + longer - 1) / longer, 1);
}

/// Returns true for tensors beside the image that hold images too.
bool holds_views(const HostTensor& tensor, std::int64_t batch) {
  const ir::TensorType& type = tensor.type();
  return type.dtype == ir::DType::f32 && type.rank() == 5 && type.shape[1] == batch;
}

/// Counts up to the last sample of weight 1; padding follows it. A sample of weight 0
/// before that could not be read.
std::int64_t sample_count(const Batch& batch) {
  const std::span<const float> weights = batch.tensors.at("weight").as<float>();
  return std::find(weights.rbegin(), weights.rend(), 1.0F).base() - weights.begin();
}

std::vector<ClassShare> shares_of(const Batch& batch, std::int64_t sample) {
  const auto target = batch.tensors.find("target");
  if (target == batch.tensors.end()) {
    const auto labels = batch.tensors.at("label").as<std::int64_t>();
    return {{labels[static_cast<std::size_t>(sample)], 1}};
  }
  const auto classes = static_cast<std::size_t>(target->second.type().shape[1]);
  const auto shares = target->second.as<float>().subspan(static_cast<std::size_t>(sample) * classes, classes);
  std::vector<std::int64_t> order(classes);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(order, std::greater(),
                           [&](std::int64_t i) { return shares[static_cast<std::size_t>(i)]; });
  std::vector<ClassShare> told;
  for (const std::int64_t label : order) {
    const float share = shares[static_cast<std::size_t>(label)];
    if (told.size() < 2 && share > 0) told.push_back({label, share});
  }
  return told;
}

/// Rows of images; rows of their views follow below each.
class PreviewSheet {
 public:
  PreviewSheet(const SheetLayout& layout, const ir::Attributes& transforms, std::int64_t rows_each)
      : sheet_(layout), transforms_(transforms), columns_(layout.columns), rows_each_(rows_each) {}

  /// Puts image `sample` of `images`, f32 [batch, channels, height, width], on the sheet.
  void put(std::int64_t sample, std::int64_t below, std::span<const float> images, const ir::Shape& image) {
    const auto size = static_cast<std::size_t>(ir::element_count(image));
    const auto pixels =
        unnormalised(images.subspan(static_cast<std::size_t>(sample) * size, size), image[0], transforms_);
    sheet_.put(sample / columns_ * rows_each_ + below, sample % columns_, pixels, image[0], image[1],
               image[2]);
  }
  const DrawnImage& image() const { return sheet_.image(); }

 private:
  ContactSheet sheet_;
  const ir::Attributes& transforms_;
  std::int64_t columns_, rows_each_;
};

/// Scales an image down into size x size, in its proportions. A smaller one stays as it is.
DrawnImage scaled_into(const DrawnImage& image, std::int64_t size) {
  const std::int64_t longer = std::max(image.height, image.width);
  if (longer <= size) return image;
  const auto part = [&](std::int64_t extent) {
    return std::max<std::int64_t>((2 * extent * size + longer) / (2 * longer), 1);
  };
  DrawnImage small{image.channels, part(image.height), part(image.width), {}};
  small.pixels.resize(static_cast<std::size_t>(small.channels * small.height * small.width));
  const Frame frame{
      {0, 0, image.height, image.width}, small.height, small.width, {0, 0, small.height, small.width}};
  resample(image.pixels, image.height, image.width, frame, Filter::bicubic, small.pixels);
  return small;
}

bool gives_size(const ir::Attributes& transforms) {
  return transforms.has("resize") && transforms.get_string("resize") != "none";
}

}  // namespace

std::vector<std::uint8_t> unnormalised(std::span<const float> pixels, std::int64_t channels,
                                       const ir::Attributes& transforms_given) {
  const TransformRow& row = ir::find_row(transforms(), "transform", "normalize");
  const ir::Attributes values = ir::settle(row.schema, transforms_given, "transforms");
  const auto &means = values.get<ir::Doubles>("mean"), &deviations = values.get<ir::Doubles>("std");
  const std::size_t plane = pixels.size() / static_cast<std::size_t>(channels);
  std::vector<std::uint8_t> bytes;
  bytes.reserve(pixels.size());
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const auto of_channel = [&](const ir::Doubles& list) {
      return list[std::min(i / plane, list.size() - 1)];
    };
    const double level = (static_cast<double>(pixels[i]) * of_channel(deviations) + of_channel(means)) * 255;
    bytes.push_back(std::isfinite(level)
                        ? static_cast<std::uint8_t>(std::clamp(std::nearbyint(level), 0.0, 255.0))
                        : std::uint8_t{0});
  }
  return bytes;
}

BatchPreview preview_batch(const Batch& batch, const ir::Attributes& transforms_given, std::int64_t images) {
  const HostTensor& first = batch.tensors.at("image");
  const ir::Shape& shape = first.type().shape;
  BatchPreview preview;
  const std::int64_t count = std::min(images, sample_count(batch));
  preview.columns = std::min(count, kPreviewColumns);
  preview.rows = (count + kPreviewColumns - 1) / kPreviewColumns;
  for (const auto& entry : batch.tensors)
    preview.views += holds_views(entry.second, shape[0]) ? entry.second.type().shape[0] : 0;

  const std::int64_t factor = enlargement(shape[2], shape[3]);
  SheetLayout layout{preview.rows * (1 + preview.views), preview.columns, shape[2] * factor,
                     shape[3] * factor};
  layout.channels = shape[1] >= 3 ? 3 : 1;
  PreviewSheet sheet(layout, transforms_given, 1 + preview.views);
  for (std::int64_t i = 0; i < count; ++i) {
    preview.told.push_back(shares_of(batch, i));
    sheet.put(i, 0, first.as<float>(), {shape.begin() + 1, shape.end()});
    std::int64_t below = 0;
    for (const auto& entry : batch.tensors) {
      const HostTensor& tensor = entry.second;
      if (!holds_views(tensor, shape[0])) continue;
      const ir::Shape& views = tensor.type().shape;
      const std::size_t size = tensor.as<float>().size() / static_cast<std::size_t>(views[0]);
      for (std::int64_t view = 0; view < views[0]; ++view) {
        sheet.put(i, ++below, tensor.as<float>().subspan(static_cast<std::size_t>(view) * size, size),
                  {views.begin() + 2, views.end()});
      }
    }
  }
  preview.sheet = sheet.image();
  return preview;
}

DrawnImage try_transforms(const DrawnImage& image, const ir::Attributes& transforms_given,
                          const TryOptions& options) {
  const bool is_given_size = gives_size(transforms_given);
  const DrawnImage original = is_given_size ? image : scaled_into(image, options.size);
  const ir::Shape stored = {original.channels, original.height, original.width};
  const ir::Shape network = is_given_size ? ir::Shape{original.channels, options.size, options.size} : stored;
  const TransformChain chain(transforms_given, {stored, network, true}, options.seed);
  if (chain.changes_batches())
    user_error("data try shows one image, but mixup and cutmix blend two: use rewire data preview");
  const ir::Shape& made = chain.shape();
  const std::int64_t factor = enlargement(made[1], made[2]);
  SheetLayout layout;
  layout.columns = std::min(options.count + 1, kTryColumns);
  layout.rows = (options.count + kTryColumns) / kTryColumns;
  layout.cell_height = made[1] * factor;
  layout.cell_width = made[2] * factor;
  layout.channels = original.channels;
  ContactSheet sheet(layout);
  sheet.put(0, 0, original.pixels, original.channels, original.height, original.width);
  std::vector<float> pixels(static_cast<std::size_t>(ir::element_count(made)));
  for (std::int64_t i = 0; i < options.count; ++i) {
    chain.apply({original.pixels, original.height, original.width}, pixels, 0, i);
    sheet.put((i + 1) / kTryColumns, (i + 1) % kTryColumns, unnormalised(pixels, made[0], transforms_given),
              made[0], made[1], made[2]);
  }
  return sheet.image();
}

}  // namespace rewire::runtime
