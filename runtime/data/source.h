// Where labelled images come from. A source is one file under sources/ and one row of sources.cpp; a recipe
// selects the row by data.format, and the row's schema gives the keys of [data] that are its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/registry.h"
#include "ir/types.h"
#include "runtime/data/box.h"

namespace rewire::runtime {

enum class Split { train, test };

/// An image as it was stored: u8 [channels, height, width].
struct StoredImage {
  std::span<const std::uint8_t> pixels;
  std::int64_t height = 0, width = 0;
};

/// What a thread reads images into: the pixels that a source gives stand here or in the source's own memory.
struct ReadBuffer {
  std::vector<std::uint8_t> pixels;
  std::vector<std::byte> file;  // of an image that is a file of its own
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
};

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
};

std::span<const SourceRow* const> sources();
/// For a source that is no resident, as tests have; the row must outlive the process.
void add_source(const SourceRow& row);

/// UserError naming the key: an unknown format, a value out of range; or an image and its label, for which the
/// model has no class.
std::unique_ptr<ImageSource> make_source(const ir::Selection& selection, const SourceContext& context);

/// UserError where the model has no class for the label; `classes` 0: it has one for all. `source` begins it.
void check_label(std::string_view source, std::int64_t sample, std::int64_t label, std::int64_t classes);

}  // namespace rewire::runtime
