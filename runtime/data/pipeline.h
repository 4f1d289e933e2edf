// How the samples of a source become rows of a batch: what a row holds, and how one is written. Where nothing is said, fields are
// copied and padded (field_pipeline); a kind of data with transforms of its own has a pipeline of its own (vision/image_pipeline.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/attribute.h"
#include "runtime/data/batch.h"
#include "runtime/data/field.h"

namespace rewire::runtime {

class Source;

/// One sample as it comes in an epoch; where augmentation repeats samples, the how-manieth time, from 0.
struct Visit {
  std::int64_t epoch = 0, sample = 0, repeat = 0;
};

/// A tensor of a batch that rows are written to.
struct RowField {
  std::string name;
  ir::TensorType type;      // of one row
  std::int64_t copies = 0;  // of it in each row: the batch is [copies, B, …]; 0: one, and the batch is [B, …]
};

/// Where a row is written to: the bytes of each field, in the order of the fields, copy by copy.
using SampleRow = std::span<const std::span<std::byte>>;
/// Writes all of a row; UserError where the sample cannot be read: then the row may hold anything. Called from several threads at
/// once; a function of its arguments.
using ReadFunction = std::function<void(const Visit& visit, SampleRow row)>;

/// A view asked for in a recipe ([[view]]): `count` further versions of each training sample, each with random numbers of its own,
/// as a tensor [count, batch, …] of that name.
struct ViewSpec {
  std::string name;
  std::int64_t count = 1;
  std::int64_t size = 0;  // of images, height and width; 0: the network's
  ir::Attributes values;  // of [transforms], over the recipe's
  bool operator==(const ViewSpec&) const = default;
};

struct PipelineContext {
  std::vector<Field> asked;     // of one sample, with the network's extents
  ir::Attributes transforms;    // [transforms]
  std::vector<ViewSpec> views;  // those that are asked for
  bool training = true;         // else as evaluation sees samples
  std::uint64_t seed = 0;       // the run's
};

class Pipeline {
 public:
  virtual ~Pipeline() = default;
  /// Of a row.
  virtual std::vector<RowField> fields() const = 0;
  /// As a ReadFunction.
  virtual void read(const Visit& visit, SampleRow row) const = 0;
  /// Tensors of the batch that finish() fills.
  virtual std::vector<RowField> made() const { return {}; }
  /// Once all rows of a batch are there.
  virtual void finish(Batch&) const {}
};

/// The fields that are asked for, found in the source by name, else by kind where one alone is of it, and of one dtype. Those with
/// ragged extents are padded with zeros to what is asked; `NAME_mask`, where it is asked for, has 1 for what is there and 0 for
/// padding. UserError on a field that the source lacks or that has another shape; of a sample with more than is asked.
std::unique_ptr<Pipeline> field_pipeline(const Source& source, const std::vector<Field>& asked);

/// The source's field for one that is asked for, by name, else by kind; null: there is none. UserError where several are of its kind.
const Field* field_for(const Source& source, const std::vector<Field>& fields, const Field& asked);

/// Whose padding a field masks that is asked for: f32 [n] called NAME_mask is of NAME; "": it is no mask.
std::string masked_name(const Field& asked);
/// Copies a tensor of `sample` into the corner of what is asked for, and zeros into the rest. DataError where it does not fit.
void pad_into(const HostTensor& tensor, const Field& asked, std::span<std::byte> to,
              const std::string& sample);

/// "f32[4]", "u8[3,?,?]".
std::string to_string(const Field& field);

}  // namespace rewire::runtime
