// The pipeline that copies fields of a source into rows and pads them there.
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

const Field* field_for(std::string_view source, const std::vector<Field>& fields, const Field& asked) {
  if (const auto named = std::ranges::find(fields, asked.name, &Field::name); named != fields.end())
    return &*named;
  if (asked.kind == FieldKind::number) return nullptr;
  const Field* found = nullptr;
  for (const Field& field : fields) {
    if (field.kind != asked.kind) continue;
    if (found != nullptr)
      user_error("{}: '{}' may be its '{}' or '{}': give one of them this name", source, asked.name,
                 found->name, field.name);
    found = &field;
  }
  return found;
}

template <class Integer>
void check_categories(const HostTensor& tensor, const FieldLink& link, const Source& source,
                      std::int64_t index) {
  for (const Integer value : tensor.as<const Integer>()) {
    if (value < 0 || static_cast<std::int64_t>(value) >= link.asked.categories)
      throw DataError(fmt::format("{}: its '{}' has {}, but the network's classes are 0 to {}",
                                  source.sample_name(index), link.field, value, link.asked.categories - 1));
  }
}

class FieldPipeline final : public Pipeline {
 public:
  FieldPipeline(const Source& source, const std::vector<Field>& asked)
      : source_(source), links_(link_fields(source.name(), source.fields(), asked)) {}

  std::vector<RowField> fields() const override {
    std::vector<RowField> rows;
    for (const FieldLink& link : links_)
      rows.push_back({link.asked.name, {link.asked.dtype, link.asked.shape}});
    return rows;
  }

  void read(const Visit& visit, SampleRow row) const override {
    thread_local Sample sample;
    source_.read(visit.sample, sample);
    for (std::size_t i = 0; i < links_.size(); ++i)
      write_field(links_[i], sample, row[i], source_, visit.sample);
  }

 private:
  const Source& source_;
  const std::vector<FieldLink> links_;
};

}  // namespace

std::vector<FieldLink> link_fields(std::string_view source, const std::vector<Field>& fields,
                                   const std::vector<Field>& asked) {
  std::vector<FieldLink> links;
  for (const Field& wanted : asked) {
    FieldLink link{wanted, {}};
    const Field* field = field_for(source, fields, wanted);
    if (field == nullptr) {
      const auto masked = std::ranges::find(fields, masked_name(wanted.name), &Field::name);
      link.is_mask = masked != fields.end() && !masked->shape.empty() && masked->shape[0] == kRagged &&
                     wanted.dtype == ir::DType::f32 && wanted.shape.size() == 1;
      if (link.is_mask) field = &*masked;
    }
    if (field == nullptr) {
      user_error("{}: a sample has {}; the network takes '{}' {}", source, fmt::join(names_of(fields), ", "),
                 wanted.name, to_string(wanted));
    }
    if (!link.is_mask && !fits(*field, wanted)) {
      user_error("{}: its '{}' is {}, but the network takes '{}' {}", source, field->name, to_string(*field),
                 wanted.name, to_string(wanted));
    }
    if (!link.is_mask && wanted.categories > 0 && field->categories > wanted.categories) {
      user_error("{}: its '{}' has {} categories, but the network has {}", source, field->name,
                 field->categories, wanted.categories);
    }
    link.field = field->name;
    link.kind = field->kind;
    links.push_back(std::move(link));
  }
  return links;
}

void write_field(const FieldLink& link, const Sample& sample, std::span<std::byte> to, const Source& source,
                 std::int64_t index) {
  const HostTensor& tensor = sample.at(link.field);
  const ir::Shape& shape = tensor.type().shape;
  if (link.is_mask) {
    const std::span<float> mask{reinterpret_cast<float*>(to.data()), to.size() / sizeof(float)};
    for (std::size_t k = 0; k < mask.size(); ++k)
      mask[k] = static_cast<std::int64_t>(k) < shape.at(0) ? 1.0F : 0.0F;
    return;
  }
  const Field& asked = link.asked;
  if (tensor.type().dtype != asked.dtype || shape.size() != asked.shape.size() ||
      !std::ranges::equal(shape, asked.shape, std::ranges::less_equal())) {
    throw DataError(fmt::format("{}: its '{}' is {}, but the network takes at most {}",
                                source.sample_name(index), link.field, ir::to_string(tensor.type()),
                                to_string(asked)));
  }
  if (asked.categories > 0 && asked.dtype == ir::DType::i64)
    check_categories<std::int64_t>(tensor, link, source, index);
  if (asked.categories > 0 && asked.dtype == ir::DType::i32)
    check_categories<std::int32_t>(tensor, link, source, index);
  copy_padded(tensor, to, asked.shape);
}

std::unique_ptr<Pipeline> field_pipeline(const Source& source, const std::vector<Field>& asked) {
  return std::make_unique<FieldPipeline>(source, asked);
}

std::string_view masked_name(std::string_view name) {
  constexpr std::string_view kSuffix = "_mask";
  return name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size()) : std::string_view();
}

std::string to_string(const Field& field) {
  std::vector<std::string> extents;
  for (const std::int64_t extent : field.shape)
    extents.push_back(extent == kRagged ? "?" : fmt::format("{}", extent));
  return fmt::format("{}[{}]", ir::dtype_name(field.dtype), fmt::join(extents, ","));
}

}  // namespace rewire::runtime
