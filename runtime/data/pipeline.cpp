// Fields of a source that are copied into rows and padded there.
#include "runtime/data/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "ir/error.h"
#include "runtime/data/source.h"

namespace rewire::runtime {
namespace {

std::vector<std::string> names_of(const std::vector<Field>& fields) {
  std::vector<std::string> names;
  for (const Field& field : fields) names.push_back(fmt::format("'{}' {}", field.name, to_string(field)));
  return names;
}

bool fits(const Field& field, const Field& asked) {
  return field.dtype == asked.dtype &&
         std::ranges::equal(field.shape, asked.shape, [](std::int64_t has, std::int64_t wants) {
           return has == kRagged || has == wants;
         });
}

/// Copies a tensor into the corner of a larger one of the same rank.
void copy_padded(const HostTensor& from, std::span<std::byte> to, const ir::Shape& extents) {
  std::ranges::fill(to, std::byte{0});
  const ir::Shape& shape = from.type().shape;
  const std::span<const std::byte> bytes = from.bytes();
  if (bytes.empty()) return;
  const auto rank = shape.size();
  if (rank == 0) {
    std::ranges::copy(bytes, to.begin());
    return;
  }
  const auto element = static_cast<std::int64_t>(bytes.size()) / ir::element_count(shape);
  const std::int64_t row = shape[rank - 1] * element, rows = static_cast<std::int64_t>(bytes.size()) / row;
  for (std::int64_t i = 0; i < rows; ++i) {
    std::int64_t rest = i, place = 0, stride = extents[rank - 1];
    for (std::size_t axis = rank - 1; axis-- > 0;) {
      place += rest % shape[axis] * stride;
      rest /= shape[axis];
      stride *= extents[axis];
    }
    std::memcpy(to.data() + place * element, bytes.data() + i * row, static_cast<std::size_t>(row));
  }
}

class FieldPipeline final : public Pipeline {
 public:
  FieldPipeline(const Source& source, const std::vector<Field>& asked) : source_(source), asked_(asked) {
    const std::vector<Field> fields = source.fields();
    for (const Field& field : asked) {
      if (const Field* found = field_for(source, fields, field)) {
        if (!fits(*found, field))
          user_error("{}: its '{}' is {}, the network takes '{}' {}", source.name(), found->name,
                     to_string(*found), field.name, to_string(field));
        links_.push_back({found->name, false});
      } else if (const Field* of = masked(fields, field)) {
        links_.push_back({of->name, true});
      } else {
        user_error("{}: a sample has {}; the network takes '{}' {}", source.name(),
                   fmt::join(names_of(fields), ", "), field.name, to_string(field));
      }
    }
  }

  std::vector<RowField> fields() const override {
    std::vector<RowField> rows;
    for (const Field& field : asked_) rows.push_back({field.name, {field.dtype, field.shape}});
    return rows;
  }

  void read(const Visit& visit, SampleRow row) const override {
    thread_local Sample sample;
    source_.read(visit.sample, sample);
    for (std::size_t i = 0; i < links_.size(); ++i) {
      const auto& [name, is_mask] = links_[i];
      const HostTensor& tensor = sample.at(name);
      if (is_mask) {
        const std::int64_t count = tensor.type().shape[0];
        const std::span<float> mask{reinterpret_cast<float*>(row[i].data()), row[i].size() / sizeof(float)};
        for (std::size_t k = 0; k < mask.size(); ++k)
          mask[k] = static_cast<std::int64_t>(k) < count ? 1.0F : 0.0F;
        continue;
      }
      pad_into(tensor, asked_[i], row[i], source_.sample_name(visit.sample));
    }
  }

 private:
  /// The source's field whose padding this one masks.
  static const Field* masked(const std::vector<Field>& fields, const Field& asked) {
    const auto found = std::ranges::find(fields, masked_name(asked), &Field::name);
    return found == fields.end() || found->shape.empty() || found->shape[0] != kRagged ? nullptr : &*found;
  }

  struct Link {
    std::string field;
    bool is_mask;
  };
  const Source& source_;
  std::vector<Field> asked_;
  std::vector<Link> links_;  // of asked_
};

}  // namespace

std::unique_ptr<Pipeline> field_pipeline(const Source& source, const std::vector<Field>& asked) {
  return std::make_unique<FieldPipeline>(source, asked);
}

const Field* field_for(const Source& source, const std::vector<Field>& fields, const Field& asked) {
  if (const auto named = std::ranges::find(fields, asked.name, &Field::name); named != fields.end())
    return &*named;
  if (asked.kind == FieldKind::number) return nullptr;
  const Field* found = nullptr;
  for (const Field& field : fields) {
    if (field.kind != asked.kind) continue;
    if (found != nullptr)
      user_error("{}: '{}' may be its '{}' or '{}': name one of them so", source.name(), asked.name,
                 found->name, field.name);
    found = &field;
  }
  return found;
}

std::string masked_name(const Field& asked) {
  constexpr std::string_view kSuffix = "_mask";
  if (!asked.name.ends_with(kSuffix) || asked.dtype != ir::DType::f32 || asked.shape.size() != 1) return {};
  return asked.name.substr(0, asked.name.size() - kSuffix.size());
}

void pad_into(const HostTensor& tensor, const Field& asked, std::span<std::byte> to,
              const std::string& sample) {
  const ir::Shape& shape = tensor.type().shape;
  if (tensor.type().dtype != asked.dtype || shape.size() != asked.shape.size() ||
      !std::ranges::equal(shape, asked.shape, std::ranges::less_equal())) {
    throw DataError(fmt::format("{}: it has {}, and the network takes '{}' up to {}", sample,
                                ir::to_string(tensor.type()), asked.name, to_string(asked)));
  }
  copy_padded(tensor, to, asked.shape);
}

std::string to_string(const Field& field) {
  std::vector<std::string> extents;
  for (const std::int64_t extent : field.shape)
    extents.push_back(extent == kRagged ? "?" : fmt::format("{}", extent));
  return fmt::format("{}[{}]", ir::dtype_name(field.dtype), fmt::join(extents, ","));
}

}  // namespace rewire::runtime
