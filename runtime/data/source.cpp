#include "runtime/data/source.h"

#include <fmt/format.h>

#include <cstring>

namespace rewire::runtime {

HostTensor& place_in(Sample& sample, const std::string& name, const ir::TensorType& type) {
  HostTensor& tensor = sample[name];
  if (tensor.type() != type || tensor.bytes().empty()) tensor = HostTensor(type);
  return tensor;
}

std::string Source::sample_name(std::int64_t index) const {
  return fmt::format("{}: sample {}", name(), index);
}

std::vector<std::string> Source::class_names() const {
  std::vector<std::string> names;
  int of_categories = 0;
  for (Field& field : fields()) {
    if (field.kind == FieldKind::category && of_categories++ == 0) names = std::move(field.names);
  }
  return of_categories == 1 ? names : std::vector<std::string>();
}

std::vector<std::uint32_t> Source::order(std::uint64_t seed, std::int64_t epoch) const {
  return epoch_order(count(), seed, epoch);
}

DataIdentity Source::identity() const {
  return identity_by(count(), class_names(), [this, root = name()](std::int64_t i) {
    return relative_name(sample_name(i), root) + "\n";
  });
}

std::unique_ptr<Pipeline> Source::pipeline(const PipelineContext& context) const {
  if (!context.views.empty()) user_error("{}: its samples have no views", name());
  return field_pipeline(*this, context.asked);
}

}  // namespace rewire::runtime
