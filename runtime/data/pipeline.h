// How the samples of a source become rows of a batch: what a row holds, and how one is written. Where nothing is said, fields are
// copied and padded (field_pipeline); a kind of data with transforms of its own has a pipeline of its own (vision/image_pipeline.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attribute.h"
#include "runtime/data/batch.h"
#include "runtime/data/field.h"

namespace rewire::runtime {

class Source;

/// One sample as it comes in an epoch. Where augmentation repeats samples, `repeat` counts its visits from 0.
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

/// How a tensor of a row comes of a sample.
struct FieldLink {
  Field asked;
  std::string field;                   // of the sample
  bool is_mask = false;                // of that field's padding
  FieldKind kind = FieldKind::number;  // of that field
};
/// Each field that is asked for, found among `fields` by its name, else by its kind where one alone is of it. Where the extent of a
/// field differs from sample to sample it is padded with zeros to what is asked; `NAME_mask`, f32 [n], where it is asked for, has 1
/// for what is there of NAME and 0 for padding. UserError on a field that there is not, of another type or with more categories than
/// the network tells apart; and where several are of the kind. `source` begins the message.
std::vector<FieldLink> link_fields(std::string_view source, const std::vector<Field>& fields,
                                   const std::vector<Field>& asked);
/// Writes what the link asks of sample `index` of `source`. DataError, which names it, where it has more than is asked for, or a
/// category that the network has not.
void write_field(const FieldLink& link, const Sample& sample, std::span<std::byte> to, const Source& source,
                 std::int64_t index);

/// The fields that are asked for, linked as above.
std::unique_ptr<Pipeline> field_pipeline(const Source& source, const std::vector<Field>& asked);

/// The name of the field whose padding a field of this name masks: of "boxes_mask" "boxes"; "": it is no mask.
std::string_view masked_name(std::string_view name);

/// "f32[4]", "u8[3,?,?]".
std::string to_string(const Field& field);

}  // namespace rewire::runtime
