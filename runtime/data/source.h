// Where samples come from. A source is one file of a folder beside this one (vision/sources/) and one row of catalog/sources.cpp; a
// recipe selects the row by data.format, and the row's schema gives the keys of [data] that are its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/error.h"
#include "ir/registry.h"
#include "runtime/data/field.h"
#include "runtime/data/identity.h"
#include "runtime/data/order.h"
#include "runtime/data/pipeline.h"

namespace rewire::runtime {

enum class Split { train, test };

/// What a data set's folder holds and the source does not take as it might be expected.
struct SourceNotes {
  std::vector<std::string> left_out;  // a line each
  std::int64_t links_out = 0;         // links that were followed and lead out of data.path
};

/// A fault of the data that is not one sample's: data.unreadable=skip does not leave it out.
class DataError : public UserError {
 public:
  using UserError::UserError;
};

/// Samples by index. Whatever it says is a function of the index alone, and it is asked from several threads at once.
class Source {
 public:
  virtual ~Source() = default;
  /// For messages: "synthetic data", or the folder.
  virtual std::string name() const = 0;
  virtual std::int64_t count() const = 0;
  /// What a sample holds.
  virtual std::vector<Field> fields() const = 0;
  /// Fills every field, as it is stored: `sample` may hold another sample's. UserError naming the sample that cannot be read.
  virtual void read(std::int64_t index, Sample& sample) const = 0;

  /// Of one sample, for messages and lists: the path of its file, or the source's name and the index.
  virtual std::string sample_name(std::int64_t index) const;
  /// Where this source is a part of another (data.train_fraction): the sample's index there, and how many samples that one has.
  virtual std::int64_t origin(std::int64_t index) const { return index; }
  virtual std::int64_t origins() const { return count(); }
  /// The names of the only field of categories, by number; none: they have no names, or there is no such field.
  virtual std::vector<std::string> class_names() const;
  virtual SourceNotes notes() const { return {}; }
  /// The order in which a training epoch visits the samples: a permutation of all, a function of its arguments.
  /// Each is as likely (epoch_order), unless a source is read faster in an order near its own.
  virtual std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch) const;
  /// What a checkpoint compares: here the names of samples and classes.
  virtual DataIdentity identity() const;
  /// A digest of what the samples depend on (names, sizes and times of files); "" where they are in memory, so
  /// that nobody needs to keep them.
  virtual std::string fingerprint() const { return {}; }
  /// The source must outlive it. UserError naming the key or the field.
  virtual std::unique_ptr<Pipeline> pipeline(const PipelineContext& context) const;
};

/// What a network asks of its data.
struct SourceContext {
  Split split = Split::train;
  std::vector<Field>
      asked;  // of one sample, with the network's extents; where nobody asks for labels, there is no such field
  std::uint64_t seed = 0;  // the run's
};

struct SourceRow {
  std::string_view name, doc;
  ir::Schema schema;
  /// Of values that are settled. UserError, one line, naming the data and its fault.
  std::unique_ptr<Source> (*make)(const ir::Attributes& values, const SourceContext& context);
  /// Whether `path`, the value of data.path, looks as if it held such data, by names alone; null: it is never found.
  bool (*is_at)(const std::string& path) = nullptr;
};

}  // namespace rewire::runtime
