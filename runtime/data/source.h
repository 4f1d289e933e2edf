// Where labelled images come from. A source is one file under sources/ and one row of sources.cpp; a recipe
// selects the row by data.format, and the row's schema gives the keys of [data] that are its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/error.h"
#include "ir/registry.h"
#include "ir/types.h"
#include "runtime/data/box.h"

namespace rewire::runtime {

enum class Split { train, test };

/// An image as it was stored: u8 [channels, height, width].
struct StoredImage {
  std::span<const std::uint8_t> pixels;
  std::int64_t height = 0, width = 0;
  int orientation = 1;      // EXIF's, 1 to 8; 1: as it is stored, or nothing is said
  bool is_upright = false;  // the source has turned it so
};

/// What a data set's folder holds and the source does not take as it might be expected.
struct SourceNotes {
  std::vector<std::string> left_out;  // a line each
  std::int64_t links_out = 0;         // links that were followed and lead out of data.path
};

/// What a thread reads images into: the pixels that a source gives stand here or in the source's own memory.
struct ReadBuffer {
  std::vector<std::uint8_t> pixels;
  std::vector<std::byte> file;  // of an image that is a file of its own
};

/// A fault of the data that is not one image's: data.unreadable=skip does not leave it out.
class DataError : public UserError {
 public:
  using UserError::UserError;
};

/// Images as bytes, each with a label. Normalisation and augmentation follow later (transform.h). Whatever it
/// says is a function of the index alone, and it is asked from several threads at once.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  /// For messages: "synthetic data", or the folder.
  virtual std::string name() const = 0;
  virtual std::int64_t count() const = 0;
  /// Of each image: [channels, height, width]; height and width are 0 where each has its own.
  virtual ir::Shape shape() const = 0;
  virtual std::int64_t label(std::int64_t index) const = 0;
  /// Valid until the buffer is read into again. Outside of the box that is `needed` pixels may have any value.
  /// UserError naming the image that cannot be read.
  virtual StoredImage read(std::int64_t index, ReadBuffer& buffer, const BoxFunction& needed) const = 0;

  /// Of one image, for messages and lists: the path of its file, or the source's name and the index.
  virtual std::string image_name(std::int64_t index) const;
  /// By label, where the data names them; else none.
  virtual std::vector<std::string> class_names() const { return {}; }
  virtual SourceNotes notes() const { return {}; }
  /// The order in which a training epoch visits the images: a permutation of all, a function of its arguments.
  /// Each is as likely (epoch_order), unless a source is read faster in an order near its own.
  virtual std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch) const;
  /// A digest of what the pixels depend on (names, sizes and times of files); "" where the pixels are in memory, so
  /// that nobody needs to keep them.
  virtual std::string fingerprint() const { return {}; }
};

/// Each of `count` images is as likely at each place: Fisher-Yates on the Philox numbers of (seed, epoch).
/// UserError above 2^32 images.
std::vector<std::uint32_t> epoch_order(std::int64_t count, std::uint64_t seed, std::int64_t epoch);

/// What a network asks of its images.
struct SourceContext {
  Split split = Split::train;
  ir::Shape image;  // [channels, height, width] that it takes, for a source that has no size of its own
  std::int64_t classes = 0;  // labels lie below it; 0: nobody asks for labels
  std::uint64_t seed = 0;    // the run's
};

struct SourceRow {
  std::string_view name, doc;
  ir::Schema schema;
  /// Of values that are settled. UserError, one line, naming the data and its fault.
  std::unique_ptr<ImageSource> (*make)(const ir::Attributes& values, const SourceContext& context);
  /// Whether `path`, the value of data.path, looks as if it held such data, by names alone; null: it is never found.
  bool (*is_at)(const std::string& path) = nullptr;
};

std::span<const SourceRow* const> sources();
/// For a source that is no resident, as tests have; the row must outlive the process.
void add_source(const SourceRow& row);

/// UserError naming the key: an unknown format, a value out of range; or an image and its label, for which the
/// model has no class.
std::unique_ptr<ImageSource> make_source(const ir::Selection& selection, const SourceContext& context);

/// UserError where the model has no class for a label, with the first such sample and the range of all labels;
/// `classes` 0: it has one for all. `source` begins it.
void check_labels(std::string_view source, std::int64_t count,
                  const std::function<std::int64_t(std::int64_t)>& label, std::int64_t classes);

}  // namespace rewire::runtime
