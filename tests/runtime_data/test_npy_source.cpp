// Images and labels in NumPy's arrays: layouts, labels of one column, and what is refused.
#include "ir/error.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/io/npy.h"
#include "tests/runtime_data/image_tree.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using test::message_of;

/// Element i has the value i modulo 251.
HostTensor counted(ir::DType dtype, const ir::Shape& shape) {
  HostTensor tensor({dtype, shape});
  std::size_t i = 0;
  for (std::uint8_t& value : tensor.as<std::uint8_t>()) value = static_cast<std::uint8_t>(i++ % 251);
  return tensor;
}

template <class Integer>
HostTensor labels_of(ir::DType dtype, const ir::Shape& shape, const std::vector<std::int64_t>& values) {
  HostTensor tensor({dtype, shape});
  for (std::size_t i = 0; i < values.size(); ++i) tensor.as<Integer>()[i] = static_cast<Integer>(values[i]);
  return tensor;
}

class ArrayTree : public test::ImageFileTree {
 public:
  ArrayTree() {
    write_npy(file("train_images.npy"), counted(ir::DType::u8, {3, 5, 7}));
    write_npy(file("train_labels.npy"), labels_of<std::int64_t>(ir::DType::i64, {3}, {2, 0, 1}));
  }
  void images(const ir::Shape& shape, ir::DType dtype = ir::DType::u8) const {
    write_npy(file("train_images.npy"), counted(dtype, shape));
  }
  std::string message(std::int64_t channels = 1, const char* layout = "nhwc",
                      std::int64_t classes = 0) const {
    return message_of<UserError>(
        [&] { open("npy", Split::train, channels, {{"layout", std::string(layout)}}, classes); });
  }
};

TEST_CASE("NumPy's arrays: grey images, and a label each") {
  const ArrayTree tree;
  const auto source = tree.open("npy", Split::train, 1);
  CHECK(source->name() == tree.path());
  CHECK(source->shape() == ir::Shape{1, 5, 7});
  REQUIRE(source->count() == 3);
  ReadBuffer buffer;
  const std::int64_t labels[] = {2, 0, 1};
  for (std::int64_t i = 0; i < 3; ++i) {
    CHECK(source->label(i) == labels[i]);
    const StoredImage image = source->decode(i, buffer, nullptr);
    REQUIRE(image.pixels.size() == 35);
    for (std::size_t p = 0; p < 35; ++p) CHECK(image.pixels[p] == static_cast<std::size_t>(i) * 35 + p);
  }
  CHECK(source->sample_name(2) == tree.path() + ": image 2");
  CHECK(source->fingerprint().empty());
}

TEST_CASE("Arrays of colours have their channels last or, if it is said, first") {
  const ArrayTree tree;
  const std::size_t height = 5, width = 7;
  ReadBuffer buffer;
  for (const std::size_t channels : {1, 2, 3, 4}) {
    const auto depth = static_cast<std::int64_t>(channels);
    tree.images({3, 5, 7, depth});
    const auto last = tree.open("npy", Split::train, depth);
    CHECK(last->shape() == ir::Shape{depth, 5, 7});
    tree.images({3, depth, 5, 7});
    const auto first = tree.open("npy", Split::train, depth, {{"layout", std::string("nchw")}});
    CHECK(first->shape() == ir::Shape{depth, 5, 7});
    for (std::size_t i = 0; i < 3; ++i) {
      const auto by_pixel = last->decode(static_cast<std::int64_t>(i), buffer, nullptr).pixels;
      const auto by_plane = first->decode(static_cast<std::int64_t>(i), buffer, nullptr).pixels;
      REQUIRE(by_pixel.size() == channels * height * width);
      REQUIRE(by_plane.size() == by_pixel.size());
      for (std::size_t c = 0; c < channels; ++c) {
        for (std::size_t p = 0; p < height * width; ++p) {
          const std::size_t image = i * by_pixel.size(), at = c * height * width + p;
          CHECK(by_pixel[at] == (image + p * channels + c) % 251);
          CHECK(by_plane[at] == (image + at) % 251);
        }
      }
    }
  }
}

TEST_CASE("Labels are integers of any kind that is read, in a row or in a column of one") {
  const ArrayTree tree;
  const auto check = [&](const HostTensor& labels) {
    write_npy(tree.file("train_labels.npy"), labels);
    const auto source = tree.open("npy", Split::train, 1, {}, 8);
    CHECK(source->label(0) == 7);
    CHECK(source->label(2) == 3);
  };
  for (const ir::Shape& shape : {ir::Shape{3}, ir::Shape{3, 1}}) {
    check(labels_of<std::int64_t>(ir::DType::i64, shape, {7, 0, 3}));
    check(labels_of<std::int32_t>(ir::DType::i32, shape, {7, 0, 3}));
    check(labels_of<std::uint8_t>(ir::DType::u8, shape, {7, 0, 3}));
  }
}

TEST_CASE("Arrays that are no data set are refused in one line") {
  const ArrayTree tree;
  const std::string images = tree.file("train_images.npy"), labels = tree.file("train_labels.npy");
  CHECK(message_of<UserError>([&] { tree.open("npy", Split::test, 1); }) ==
        "cannot read " + tree.file("test_labels.npy") + ": No such file or directory");
  tree.images({4, 5, 7});
  CHECK(tree.message() == images + " holds 4 images, but " + labels + " holds 3 labels");
  const std::string wanted =
      ": images must be u8 of rank 3 or 4: [N, H, W], [N, H, W, C] or, with data.layout=nchw, [N, C, H, W]";
  tree.images({3, 35});
  CHECK(tree.message() == images + ": u8 [3, 35]" + wanted);
  tree.images({3, 5, 7}, ir::DType::f32);
  CHECK(tree.message() == images + ": f32 [3, 5, 7]" + wanted);
  tree.images({3, 3, 5, 7});
  CHECK(tree.message(3) == images +
                               ": u8 [3, 3, 5, 7]: as nhwc these images have 7 channels, but model.channels "
                               "is 3: set data.layout=nchw");
  tree.images({3, 5, 7, 3});
  CHECK(tree.message(3, "nchw") == images +
                                       ": u8 [3, 5, 7, 3]: as nchw these images have 5 channels, but "
                                       "model.channels is 3: set data.layout=nhwc");
  tree.images({3, 1, 5, 7});
  CHECK(tree.message(3) == images +
                               ": u8 [3, 1, 5, 7]: as nhwc these images have 7 channels, but model.channels "
                               "is 3: set data.layout=nchw");
  tree.images({3, 5, 7});
  CHECK(
      tree.message(1, "nhwc", 2) ==
      labels +
          ": sample 0 has label 2, of labels from 0 to 2, but the model has 2 classes: set model.classes=3");
  write_npy(labels, labels_of<std::int32_t>(ir::DType::i32, {3}, {0, -1, 0}));
  CHECK(tree.message() == labels + ": sample 1 has label -1, of labels from -1 to 0: labels count from 0");
  write_npy(labels, labels_of<std::int64_t>(ir::DType::i64, {3}, {0, 1, std::int64_t{1} << 31}));
  CHECK(tree.message() == labels + ": sample 2 has label 2147483648: labels must be below 2^31");
  write_npy(labels, counted(ir::DType::u8, {3, 2}));
  CHECK(tree.message() == labels + ": u8 [3, 2]: labels must be i64, i32 or u8 of shape [N] or [N, 1]");
  write_npy(labels, counted(ir::DType::f32, {3}));
  CHECK(tree.message() == labels + ": f32 [3]: labels must be i64, i32 or u8 of shape [N] or [N, 1]");
  tree.write("train_labels.npy", "no array");
  CHECK(tree.message() == labels + ": not a .npy file: it does not begin with \\x93NUMPY");
  CHECK(message_of<UserError>([] { make_image_source({"npy"}, {Split::train, {1, 8, 8}}); }) ==
        "data.path is empty: set it to the folder that holds train_images.npy");
}

}  // namespace
}  // namespace rewire::runtime
