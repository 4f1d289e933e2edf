// Images and labels that NumPy saved: PATH/{train,test}_images.npy, u8 [N, H, W] or [N, H, W, C] or, by
// data.layout, [N, C, H, W], and PATH/{train,test}_labels.npy, integers [N] or [N, 1].
#include "runtime/io/npy.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <limits>
#include <utility>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/vision/sources/image_files.h"

namespace rewire::runtime {
namespace {

/// Pixels in the array that was read, u8 [N, channels, height, width].
class ArrayImages final : public ImageSource {
 public:
  ArrayImages(std::string name, ir::Shape shape, HostTensor pixels, std::vector<std::int32_t> labels)
      : name_(std::move(name)),
        shape_(std::move(shape)),
        size_(static_cast<std::size_t>(ir::element_count(shape_))),
        pixels_(std::move(pixels)),
        labels_(std::move(labels)) {}

  std::string name() const override { return name_; }
  std::int64_t count() const override { return std::ssize(labels_); }
  ir::Shape shape() const override { return shape_; }
  std::int64_t label(std::int64_t index) const override { return labels_[static_cast<std::size_t>(index)]; }
  StoredImage decode(std::int64_t index, ReadBuffer&, const BoxFunction&) const override {
    const std::size_t first = static_cast<std::size_t>(index) * size_;
    return {pixels_.as<const std::uint8_t>().subspan(first, size_), shape_[1], shape_[2]};
  }

 private:
  std::string name_;
  ir::Shape shape_;
  std::size_t size_;
  HostTensor pixels_;
  std::vector<std::int32_t> labels_;
};

std::string array_shape(const HostTensor& array) {
  return fmt::format("{} [{}]", ir::dtype_name(array.type().dtype), fmt::join(array.type().shape, ", "));
}

/// Returns [channels, height, width] of the array's images.
ir::Shape array_image_shape(const HostTensor& images, const std::string& path, bool is_nchw,
                            std::int64_t channels) {
  const ir::Shape& shape = images.type().shape;
  if (images.type().dtype != ir::DType::u8 || (shape.size() != 3 && shape.size() != 4)) {
    user_error(
        "{}: {}: images must be u8 of rank 3 or 4: [N, H, W], [N, H, W, C] or, with data.layout=nchw, [N, C, "
        "H, W]",
        visible(path), array_shape(images));
  }
  if (shape.size() == 3) return {1, shape[1], shape[2]};
  const ir::Shape nchw = {shape[1], shape[2], shape[3]}, nhwc = {shape[3], shape[1], shape[2]};
  const ir::Shape &said = is_nchw ? nchw : nhwc, &other = is_nchw ? nhwc : nchw;
  const auto is_usual = [](std::int64_t count) { return count == 1 || count == 3; };
  if ((said[0] != channels && other[0] == channels) || (!is_usual(said[0]) && is_usual(other[0]))) {
    user_error("{}: {}: as {} these images have {} channels, but model.channels is {}: set data.layout={}",
               visible(path), array_shape(images), is_nchw ? "nchw" : "nhwc", said[0], channels,
               is_nchw ? "nhwc" : "nchw");
  }
  return said;
}

/// Converts [N, H, W, C] to [N, C, H, W] in place, one image after the other.
void channels_first(HostTensor& images, const ir::Shape& shape) {
  const auto channels = static_cast<std::size_t>(shape[0]),
             plane = static_cast<std::size_t>(shape[1] * shape[2]);
  const std::span<std::uint8_t> all = images.as<std::uint8_t>();
  std::vector<std::uint8_t> image(channels * plane);
  for (std::size_t first = 0; first < all.size(); first += image.size()) {
    for (std::size_t pixel = 0; pixel < plane; ++pixel) {
      for (std::size_t channel = 0; channel < channels; ++channel)
        image[channel * plane + pixel] = all[first + pixel * channels + channel];
    }
    std::copy(image.begin(), image.end(), all.begin() + static_cast<std::ptrdiff_t>(first));
  }
}

template <class Integer>
std::vector<std::int32_t> narrow_labels(const HostTensor& labels, const std::string& path,
                                        std::int64_t classes) {
  const std::string name = visible(path);
  const std::span<const Integer> values = labels.as<const Integer>();
  check_labels(
      name, std::ssize(values), [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; }, classes);
  std::vector<std::int32_t> narrow;
  narrow.reserve(values.size());
  for (const Integer value : values) {
    const auto label = static_cast<std::int64_t>(value);
    if (label > std::numeric_limits<std::int32_t>::max())
      user_error("{}: sample {} has label {}: labels must be below 2^31", name, narrow.size(), label);
    narrow.push_back(static_cast<std::int32_t>(label));
  }
  return narrow;
}

std::vector<std::int32_t> read_labels(const std::string& path, std::int64_t classes) {
  const HostTensor labels = parse_npy(read_regular_file(path), path);
  const ir::Shape& shape = labels.type().shape;
  const bool is_list = shape.size() == 1 || (shape.size() == 2 && shape[1] == 1);
  const ir::DType dtype = labels.type().dtype;
  if (is_list && dtype == ir::DType::i64) return narrow_labels<std::int64_t>(labels, path, classes);
  if (is_list && dtype == ir::DType::i32) return narrow_labels<std::int32_t>(labels, path, classes);
  if (is_list && dtype == ir::DType::u8) return narrow_labels<std::uint8_t>(labels, path, classes);
  user_error("{}: {}: labels must be i64, i32 or u8 of shape [N] or [N, 1]", visible(path),
             array_shape(labels));
}

std::unique_ptr<Source> read_arrays(const ir::Attributes& values, const SourceContext& asks) {
  const ImageContext context = image_context(asks);
  const std::string& folder = values.get_string("path");
  if (folder.empty()) user_error("data.path is empty: set it to the folder that holds train_images.npy");
  const bool is_train = context.split == Split::train, is_nchw = values.get_string("layout") == "nchw";
  const auto file = [&](const char* train, const char* test) {
    return (std::filesystem::path(folder) / (is_train ? train : test)).string();
  };
  const std::string images_path = file("train_images.npy", "test_images.npy"),
                    labels_path = file("train_labels.npy", "test_labels.npy");
  std::vector<std::int32_t> labels = read_labels(labels_path, context.classes);
  HostTensor images = parse_npy(read_regular_file(images_path), images_path);
  const ir::Shape shape = array_image_shape(images, images_path, is_nchw, context.image[0]);
  if (images.type().shape[0] != std::ssize(labels)) {
    user_error("{} holds {} images, but {} holds {} labels", visible(images_path), images.type().shape[0],
               visible(labels_path), labels.size());
  }
  if (!is_nchw && shape[0] > 1) channels_first(images, shape);
  return std::make_unique<ArrayImages>(visible(folder), shape, std::move(images), std::move(labels));
}

bool are_arrays(const std::string& path) {
  return has_file(std::filesystem::path(path) / "train_images.npy");
}

}  // namespace

extern const SourceRow kNpySource{
    "npy",
    "NumPy arrays: {train,test}_images.npy and {train,test}_labels.npy",
    {ir::path_parameter("path", "", "folder of the four arrays"),
     ir::enum_parameter("layout", {"nhwc", "nchw"},
                        "axis order of arrays of rank 4; nhwc: channels last; nchw: channels first")},
    read_arrays,
    are_arrays};

}  // namespace rewire::runtime
