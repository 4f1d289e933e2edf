// From stored bytes to the floats that a network sees. A transform is one file under transforms/ and one row
// of transforms.cpp, which lists them in the order in which they are applied; the rows' schemas are the keys
// of [transforms]. What chance decides for a sample is a function of (seed, epoch, sample) alone, so that
// neither threads nor a resumed run change it.
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

/// The random numbers that one transform has for one sample as one epoch sees it.
struct SampleRandom {
  ir::PhiloxStream stream;  // of the transform, the run's seed and the epoch
  std::uint64_t sample = 0;

  /// Uniform in [0, count): the high word of the stream's 32 bits at `index` times count.
  std::int64_t below(std::uint64_t index, std::int64_t count) const {
    return static_cast<std::int64_t>(std::uint64_t{stream.bits(index)} * static_cast<std::uint64_t>(count) >>
                                     32);
  }
};

/// The images that a transform is to be made for.
struct TransformContext {
  /// [channels, height, width] of what comes. Of a chain, height and width are 0 where each image has its own; its
  /// transforms are made for the network's then.
  ir::Shape image;
  ir::Shape network;  // of what the network takes
  bool training = true;
  bool has_boxes = false;  // that move with the pixels
};

/// What a transform sees of an image.
struct ImageBytes {
  std::span<const std::byte> bytes;  // [channels, height, width] of the elements that it reads
  std::int64_t height = 0, width = 0;
};

/// Made for images of one shape, unless it says that it takes any. It is called from several threads at once.
class Transform {
 public:
  virtual ~Transform() = default;
  /// Of the images that it makes: [channels, height, width].
  virtual ir::Shape shape() const = 0;
  /// Elements that it reads and writes: u8, pixels as they were stored, or f32.
  virtual ir::DType reads() const = 0;
  virtual ir::DType writes() const = 0;
  /// Whether images may differ in size: then it is what gives all of them one.
  virtual bool takes_any_size() const { return false; }
  /// What run() reads of an image of that size.
  virtual Box looks_at(std::int64_t height, std::int64_t width, const SampleRandom&) const {
    return {0, 0, height, width};
  }
  /// Moves boxes as run() moves the pixels of an image of that size: left, top, right, bottom of each, in pixels; what lies outside
  /// is cut off behind the last transform. A transform that leaves each pixel where it is moves no box.
  virtual void move_boxes(std::span<float> /*boxes*/, std::int64_t /*height*/, std::int64_t /*width*/,
                          const SampleRandom&) const {}
  /// Writes all of `out`, which has its shape; a function of its arguments.
  virtual void run(const ImageBytes& image, std::span<std::byte> out, const SampleRandom& random) const = 0;
};

/// What a transform derives from: of bytes to bytes before `normalize`, of floats to floats behind it.
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

/// Numbers of data.augment a sample, which random_crop and horizontal_flip share: dy, dx, the flip, and one that
/// is free.
inline constexpr std::uint64_t kSharedDraws = 4;

/// What changes a whole batch in training, behind all other transforms. Called from several threads at once.
class BatchTransform {
 public:
  virtual ~BatchTransform() = default;
  /// Changes `images` f32 [batch, channels, height, width] and `targets` f32 [batch, classes], the probability
  /// of each class. `random.sample` is the batch's number in its epoch.
  virtual void run(std::span<float> images, std::span<float> targets, std::int64_t batch,
                   const SampleRandom& random) const = 0;
};

struct TransformRow {
  std::string_view name, doc;
  ir::Schema schema;  // no two rows have a key of one name
  bool training_only;
  /// For those images, of values that are settled; null where the values ask for nothing. UserError
  /// naming the key where they do not go together, or not with the shape.
  std::unique_ptr<Transform> (*make)(const ir::Attributes& values, const TransformContext& context);
  /// Of its random numbers; "": data.augment.NAME, which is no other's.
  std::string_view stream = {};
  /// Instead of `make`, for images that the network takes.
  std::unique_ptr<BatchTransform> (*make_batch)(const ir::Attributes& values,
                                                const ir::Shape& image) = nullptr;
  /// The kinds of fields that it reads and writes. With boxes among them it moves pixels, and boxes by move_boxes(), or it refuses
  /// TransformContext::has_boxes; else each pixel stays where it is.
  std::vector<FieldKind> fields = {FieldKind::image};
};

std::span<const TransformRow* const> transforms();
/// For a transform that is no resident, as tests have: in front of the one called `before`, or last. The row
/// must outlive the process.
void add_transform(const TransformRow& row, std::string_view before = {});

/// An image of a size that a chain does not take.
class ImageSizeError : public DataError {
 public:
  using DataError::DataError;
};

/// The transforms that are on, one behind the other.
class TransformChain {
 public:
  /// `values` are those of [transforms], `context.image` is the shape of the stored images. A `view` has random
  /// numbers of its own, and batches of it are not changed. UserError naming the key.
  TransformChain(const ir::Attributes& values, TransformContext context, std::uint64_t seed,
                 std::string_view view = {});

  /// Of what it makes.
  const ir::Shape& shape() const { return shape_; }
  /// What apply() reads of a stored image of that size.
  Box looks_at(std::int64_t height, std::int64_t width, std::int64_t epoch, std::int64_t sample) const;
  /// Evaluation sees the same in each epoch. `out` is of shape(). ImageSizeError unless the image has the size that the
  /// chain was made for, or the first transform takes any.
  void apply(const StoredImage& image, std::span<float> out, std::int64_t epoch, std::int64_t sample) const;
  /// Moves boxes of a stored image of that size to where apply() moves what they hold, and cuts them off at the image's edges.
  void move_boxes(std::span<float> boxes, std::int64_t height, std::int64_t width, std::int64_t epoch,
                  std::int64_t sample) const;
  /// The first transform that is on and moves pixels, by its row's name; "": each pixel stays where it is.
  std::string_view mover() const { return mover_; }
  /// Whether batches are changed too, and their targets with them.
  bool changes_batches() const { return !batch_links_.empty(); }
  /// Batch `index` of an epoch, which has its images already.
  void apply_to_batch(std::span<float> images, std::span<float> targets, std::int64_t batch,
                      std::int64_t epoch, std::int64_t index) const;

 private:
  SampleRandom random_of(std::uint64_t stream, std::int64_t epoch, std::int64_t sample) const {
    return {{seed_, static_cast<std::uint32_t>(training_ ? epoch : 0), stream},
            static_cast<std::uint64_t>(sample)};
  }

  struct Link {
    std::unique_ptr<Transform> transform;
    ir::Shape shape;
    std::uint64_t stream;  // stream_hash()
    std::size_t bytes;     // of what it makes
  };
  struct BatchLink {
    std::unique_ptr<BatchTransform> transform;
    std::uint64_t stream;
  };
  std::vector<Link> links_;
  std::vector<BatchLink> batch_links_;
  std::string_view mover_;
  ir::Shape shape_;
  std::int64_t height_ = 0, width_ = 0;  // of the images that come; 0: any
  bool training_;
  std::uint64_t seed_;
};

}  // namespace rewire::runtime
