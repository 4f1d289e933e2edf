// Sources of samples. A source is one file of a folder beside this one (vision/sources/) and one row of
// catalog/sources.cpp. A recipe selects the row by data.format; the row's schema lists its own keys of
// [data].
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

/// Contents of a data set's folder that the source treats otherwise than one might expect.
struct SourceNotes {
  std::vector<std::string> left_out;  // one line each
  std::int64_t links_out = 0;         // followed links that lead out of data.path
};

/// A fault of the data as a whole, not of one sample: data.unreadable=skip does not leave it out.
class DataError : public UserError {
 public:
  using UserError::UserError;
};

/// Samples by index. All results are functions of the arguments alone; several threads call it at once.
class Source {
 public:
  virtual ~Source() = default;
  /// The name for messages: "synthetic data", or the folder.
  virtual std::string name() const = 0;
  virtual std::int64_t count() const = 0;
  /// The fields of a sample.
  virtual std::vector<Field> fields() const = 0;
  /// Fills every field as it is stored; `sample` may hold another sample's. Throws UserError naming an
  /// unreadable sample.
  virtual void read(std::int64_t index, Sample& sample) const = 0;

  /// The sample's name for messages and lists: the path of its file, or the source's name and the index.
  virtual std::string sample_name(std::int64_t index) const;
  /// The sample's index in the source that this one is a part of (data.train_fraction), and that source's
  /// sample count.
  virtual std::int64_t origin(std::int64_t index) const { return index; }
  virtual std::int64_t origins() const { return count(); }
  /// The names of the only field of categories, by number; empty if unnamed, or if there is no such field.
  virtual std::vector<std::string> class_names() const;
  virtual SourceNotes notes() const { return {}; }
  /// The order in which a training epoch visits the samples: a permutation, a function of its arguments. It
  /// is uniformly random (epoch_order), unless a source is read faster in an order near its own.
  virtual std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch) const;
  /// The identity that a checkpoint compares; by default, the names of samples and classes.
  virtual DataIdentity identity() const;
  /// A digest of what the samples depend on (names, sizes and times of files); "" if they are in memory, so
  /// that nothing needs to cache them.
  virtual std::string fingerprint() const { return {}; }
  /// Makes the pipeline of this source, which must outlive it. Throws UserError naming the key or the field.
  virtual std::unique_ptr<Pipeline> pipeline(const PipelineContext& context) const;
};

/// The data that a network asks for.
struct SourceContext {
  Split split = Split::train;
  std::vector<Field>
      asked;  // fields of one sample, with the network's extents; no label field if labels are not needed
  std::uint64_t seed = 0;  // the run's
  std::string cache = {};  // data.cache: the folder for what is made of the data once; "": the source's own
};

struct SourceRow {
  std::string_view name, doc;
  ir::Schema schema;
  /// Makes the source from settled values. Throws UserError, one line, naming the data and its fault.
  std::unique_ptr<Source> (*make)(const ir::Attributes& values, const SourceContext& context);
  /// Returns true if `path`, the value of data.path, looks like such data, by names alone; null: it is never
  /// found.
  bool (*is_at)(const std::string& path) = nullptr;
  bool caches = false;  // it keeps what it makes of the data in SourceContext::cache
};

}  // namespace rewire::runtime
