// Transforms turn stored bytes into the floats that a network sees. A transform is one file in transforms/
// and one row of transforms.cpp, which lists them in the order of application; the rows' schemas are the
// keys of [transforms]. Random decisions for a sample depend on (seed, epoch, sample) alone, so threads and
// a resumed run do not change them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ir/philox.h"
#include "ir/schema.h"
#include "ir/types.h"
#include "runtime/data/vision/image_source.h"

namespace rewire::runtime {

/// The random numbers of one transform for one sample in one epoch.
struct SampleRandom {
  ir::PhiloxStream stream;  // stream of the transform, the run's seed and the epoch
  std::uint64_t sample = 0;

  /// Draws uniformly from [0, count): the high word of the stream's 32 bits at `index` times count.
  std::int64_t below(std::uint64_t index, std::int64_t count) const {
    return static_cast<std::int64_t>(std::uint64_t{stream.bits(index)} * static_cast<std::uint64_t>(count) >>
                                     32);
  }
};

/// The images that a transform is made for.
struct TransformContext {
  /// [channels, height, width] of its input. For a chain, height and width are 0 if each image has its own;
  /// its transforms are then made for the network's.
  ir::Shape image;
  ir::Shape network;  // shape of the network's input
  bool training = true;
  bool has_boxes = false;  // boxes move with the pixels
};

/// The image that a transform reads.
struct ImageBytes {
  std::span<const std::byte> bytes;  // [channels, height, width] of the elements that it reads
  std::int64_t height = 0, width = 0;
};

/// A transform for images of one shape, unless it takes any size. Several threads call it at once.
class Transform {
 public:
  virtual ~Transform() = default;
  /// The shape of the images that it makes: [channels, height, width].
  virtual ir::Shape shape() const = 0;
  /// The elements that it reads and writes: u8, pixels as stored, or f32.
  virtual ir::DType reads() const = 0;
  virtual ir::DType writes() const = 0;
  /// True if images may differ in size; the transform then gives all of them one size.
  virtual bool takes_any_size() const { return false; }
  /// Returns the part of an image of that size that run() reads.
  virtual Box looks_at(std::int64_t height, std::int64_t width, const SampleRandom&) const {
    return {0, 0, height, width};
  }
  /// Moves boxes as run() moves the pixels of an image of that size: left, top, right, bottom of each, in
  /// pixels. Boxes are clipped after the last transform. A transform that leaves each pixel in place moves
  /// no box.
  virtual void move_boxes(std::span<float> /*boxes*/, std::int64_t /*height*/, std::int64_t /*width*/,
                          const SampleRandom&) const {}
  /// Returns the float that each byte of each channel becomes, [channels, 256]; empty if a result depends on more.
  virtual std::span<const float> byte_values() const { return {}; }
  /// Writes all of `out`, which has shape(); a function of its arguments.
  virtual void run(const ImageBytes& image, std::span<std::byte> out, const SampleRandom& random) const = 0;
};

/// The base class of transforms: from bytes to bytes before `normalize`, from floats to floats after it.
template <class In, class Out>
class TransformOf : public Transform {
 public:
  virtual void apply(std::span<const In> image, std::span<Out> out, const SampleRandom& random) const = 0;

  ir::DType reads() const final { return dtype_of<In>(); }
  ir::DType writes() const final { return dtype_of<Out>(); }
  void run(const ImageBytes& image, std::span<std::byte> out, const SampleRandom& random) const final {
    apply({reinterpret_cast<const In*>(image.bytes.data()), image.bytes.size() / sizeof(In)},
          {reinterpret_cast<Out*>(out.data()), out.size() / sizeof(Out)}, random);
  }

 private:
  template <class T>
  static constexpr ir::DType dtype_of() {
    static_assert(std::is_same_v<T, std::uint8_t> || std::is_same_v<T, float>);
    return std::is_same_v<T, float> ? ir::DType::f32 : ir::DType::u8;
  }
};

/// Random numbers of data.augment per sample, which random_crop and horizontal_flip share: dy, dx, the flip,
/// and a free one.
inline constexpr std::uint64_t kSharedDraws = 4;

/// Changes a whole batch in training, after all other transforms. Several threads call it at once.
class BatchTransform {
 public:
  virtual ~BatchTransform() = default;
  /// Changes `images` f32 [batch, channels, height, width] and `targets` f32 [batch, classes], the
  /// probability of each class. `random.sample` is the batch's number in its epoch.
  virtual void run(std::span<float> images, std::span<float> targets, std::int64_t batch,
                   const SampleRandom& random) const = 0;
};

struct TransformRow {
  std::string_view name, doc;
  ir::Schema schema;  // no two rows have a key of the same name
  bool training_only;
  /// Makes the transform for those images from settled values; null if the values ask for none. Throws
  /// UserError naming the key if values do not fit each other or the shape.
  std::unique_ptr<Transform> (*make)(const ir::Attributes& values, const TransformContext& context);
  /// The name of its random stream; "": data.augment.NAME, which no other transform has.
  std::string_view stream = {};
  /// Replaces `make` for a transform of batches; `image` is the shape that the network takes.
  std::unique_ptr<BatchTransform> (*make_batch)(const ir::Attributes& values,
                                                const ir::Shape& image) = nullptr;
  /// The kinds of fields that it reads and writes. With boxes among them it moves pixels, and it moves boxes
  /// by move_boxes() or refuses TransformContext::has_boxes; else each pixel stays in place.
  std::vector<FieldKind> fields = {FieldKind::image};
};

std::span<const TransformRow* const> transforms();
/// Adds a transform that is not a resident, for tests: before the one named `before`, or last. The row must
/// outlive the process.
void add_transform(const TransformRow& row, std::string_view before = {});

/// The error for an image of a size that a chain does not take.
class ImageSizeError : public DataError {
 public:
  using DataError::DataError;
};

/// The transforms that are on, in order.
class TransformChain {
 public:
  /// `values` are from [transforms]; `context.image` is the shape of the stored images. A `view` has its own
  /// random numbers, and its batches are not changed. Throws UserError naming the key.
  TransformChain(const ir::Attributes& values, TransformContext context, std::uint64_t seed,
                 std::string_view view = {});

  /// The shape of its output.
  const ir::Shape& shape() const { return shape_; }
  /// Returns the part of a stored image of that size that apply() reads.
  Box looks_at(std::int64_t height, std::int64_t width, std::int64_t epoch, std::int64_t sample) const;
  /// Transforms an image to `out`, which has shape(). Evaluation gives the same in each epoch. Throws
  /// ImageSizeError unless the image has the size that the chain was made for, or the first transform takes
  /// any.
  void apply(const StoredImage& image, std::span<float> out, std::int64_t epoch, std::int64_t sample) const {
    run(links_.size(), image, std::as_writable_bytes(out), epoch, sample);
  }
  /// Returns the last transform's byte_values(); empty also if batches are changed.
  std::span<const float> byte_values() const;
  /// Applies all transforms but the last, whose byte_values() are not empty.
  void apply_to_bytes(const StoredImage& image, std::span<std::uint8_t> out, std::int64_t epoch,
                      std::int64_t sample) const {
    run(links_.size() - 1, image, std::as_writable_bytes(out), epoch, sample);
  }
  /// Moves boxes of a stored image of that size as apply() moves its pixels, and clips them at the image's
  /// edges.
  void move_boxes(std::span<float> boxes, std::int64_t height, std::int64_t width, std::int64_t epoch,
                  std::int64_t sample) const;
  /// The name of the first transform that is on and moves pixels; "": each pixel stays in place.
  std::string_view mover() const { return mover_; }
  /// True if batches are changed too, and their targets with them.
  bool changes_batches() const { return !batch_links_.empty(); }
  /// Changes batch `index` of an epoch, whose images are filled already.
  void apply_to_batch(std::span<float> images, std::span<float> targets, std::int64_t batch,
                      std::int64_t epoch, std::int64_t index) const;

 private:
  SampleRandom random_of(std::uint64_t stream, std::int64_t epoch, std::int64_t sample) const {
    return {{seed_, static_cast<std::uint32_t>(training_ ? epoch : 0), stream},
            static_cast<std::uint64_t>(sample)};
  }

  /// Applies the first `count` transforms.
  void run(std::size_t count, const StoredImage& image, std::span<std::byte> out, std::int64_t epoch,
           std::int64_t sample) const;

  struct Link {
    std::unique_ptr<Transform> transform;
    ir::Shape shape;
    std::uint64_t stream;  // stream_hash()
    std::size_t bytes;     // bytes of its output
  };
  struct BatchLink {
    std::unique_ptr<BatchTransform> transform;
    std::uint64_t stream;
  };
  std::vector<Link> links_;
  std::vector<BatchLink> batch_links_;
  std::string_view mover_;
  ir::Shape shape_;
  std::int64_t height_ = 0, width_ = 0;  // size of the input images; 0: any
  bool training_;
  std::uint64_t seed_;
};

}  // namespace rewire::runtime
