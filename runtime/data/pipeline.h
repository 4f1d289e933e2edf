// Turns the samples of a source into rows of a batch. By default fields are copied and padded
// (field_pipeline); a kind of data with transforms has its own pipeline (vision/image_pipeline.h).
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

/// One visit of a sample in an epoch. If augmentation repeats samples, `repeat` counts the visits from 0.
struct Visit {
  std::int64_t epoch = 0, sample = 0, repeat = 0;
};

/// A tensor of a batch, as its rows are written.
struct RowField {
  std::string name;
  ir::TensorType type;      // type of one row
  std::int64_t copies = 0;  // per row, the batch is [copies, B, …]; 0: one, and the batch is [B, …]
  /// If images are u8, the f32 value of each byte, [channels, 256]; otherwise empty.
  std::vector<float> byte_values = {};
};

/// The memory of one row: the bytes of each field, in the order of the fields, copy by copy.
using SampleRow = std::span<const std::span<std::byte>>;
/// Writes a whole row; a function of its arguments, called from several threads at once. Throws UserError if
/// the sample cannot be read; the row's contents are then undefined.
using ReadFunction = std::function<void(const Visit& visit, SampleRow row)>;

/// A view that a recipe asks for ([[view]]): `count` further versions of each training sample, each with its
/// own random numbers, as a tensor [count, batch, …] of that name.
struct ViewSpec {
  std::string name;
  std::int64_t count = 1;
  std::int64_t size = 0;  // height and width of its images; 0: the network's
  ir::Attributes values;  // [transforms] values that override the recipe's
  bool operator==(const ViewSpec&) const = default;
};

struct PipelineContext {
  std::vector<Field> asked;     // fields that the network takes, per sample, with its extents
  ir::Attributes transforms;    // [transforms]
  std::vector<ViewSpec> views;  // views that the recipe asks for
  bool training = true;         // false: as evaluation sees samples
  std::uint64_t seed = 0;       // the run's
  bool bytes = false;  // images are rows of u8 where each float depends on its byte and channel alone
};

class Pipeline {
 public:
  virtual ~Pipeline() = default;
  /// Returns the tensors of a row.
  virtual std::vector<RowField> fields() const = 0;
  /// Reads a row; see ReadFunction.
  virtual void read(const Visit& visit, SampleRow row) const = 0;
  /// Returns the tensors of the batch that finish() fills.
  virtual std::vector<RowField> made() const { return {}; }
  /// Called when all rows of a batch are filled.
  virtual void finish(Batch&) const {}
};

/// Links a tensor of a row to a field of the sample.
struct FieldLink {
  Field asked;
  std::string field;                   // the sample's field
  bool is_mask = false;                // the tensor is the mask of that field's padding
  FieldKind kind = FieldKind::number;  // that field's kind
};
/// Finds each field that is asked for among `fields`, by its name, else by its kind if only one field has
/// it. A field whose extent differs from sample to sample is padded with zeros to the extent that is asked
/// for. `NAME_mask`, f32 [n], is 1 for the entries of NAME and 0 for padding. Throws UserError on a field
/// that is missing, has another type or more categories than the network, or shares its kind with others.
/// The message begins with `source`.
std::vector<FieldLink> link_fields(std::string_view source, const std::vector<Field>& fields,
                                   const std::vector<Field>& asked);
/// Writes the link's tensor for sample `index` of `source`. Throws DataError naming the sample if it has
/// more than is asked for, or a category that the network lacks.
void write_field(const FieldLink& link, const Sample& sample, std::span<std::byte> to, const Source& source,
                 std::int64_t index);

/// Makes a pipeline of the fields that are asked for, linked as above.
std::unique_ptr<Pipeline> field_pipeline(const Source& source, const std::vector<Field>& asked);

/// Returns the field whose padding `name` masks: "boxes" for "boxes_mask"; "" if it is not a mask.
std::string_view masked_name(std::string_view name);

/// Formats the type of a field: "f32[4]", "u8[3,?,?]".
std::string to_string(const Field& field);

}  // namespace rewire::runtime
