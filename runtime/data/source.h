// Where labelled images come from. A source is one file under sources/ and one row of sources.cpp; a recipe
// selects the row by data.format, and the row's schema gives the keys of [data] that are its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ir/registry.h"
#include "ir/types.h"

namespace rewire::runtime {

enum class Split { train, test };

/// Images as bytes, each with a label. Normalisation and augmentation follow later (transform.h).
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  /// For messages: "synthetic data", or the folder.
  virtual std::string name() const = 0;
  virtual std::int64_t count() const = 0;
  /// Of each image: [channels, height, width].
  virtual ir::Shape shape() const = 0;
  /// Writes all pixels of image `index`, [channels, height, width], and returns its label, which is >= 0. It
  /// is a function of `index` alone, and is called from several threads at once.
  virtual std::int64_t read(std::int64_t index, std::span<std::uint8_t> pixels) const = 0;
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

/// UserError naming the key: an unknown format, a value out of range.
std::unique_ptr<ImageSource> make_source(const ir::Selection& selection, const SourceContext& context);

/// UserError where the model has no class for the label; `classes` 0: it has one for all. `source` begins it.
void check_label(std::string_view source, std::int64_t sample, std::int64_t label, std::int64_t classes);

}  // namespace rewire::runtime
