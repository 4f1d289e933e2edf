// The residents: a source of images is its file and a row here.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "ir/error.h"
#include "ir/philox.h"
#include "runtime/data/draw.h"
#include "runtime/data/source.h"

namespace rewire::runtime {

extern const SourceRow kIdxSource, kCifarSource, kFolderSource, kTinyImagenetSource, kNpySource,
    kShardsSource, kSyntheticSource;

namespace {

std::vector<const SourceRow*>& source_rows() {
  static std::vector<const SourceRow*> rows = {
      &kIdxSource,    &kCifarSource, &kFolderSource,    &kTinyImagenetSource,
      &kShardsSource, &kNpySource,   &kSyntheticSource,
  };
  return rows;
}

}  // namespace

std::vector<std::uint32_t> epoch_order(std::int64_t count, std::uint64_t seed, std::int64_t epoch) {
  if (count > std::numeric_limits<std::uint32_t>::max()) user_error("{} samples are too many", count);
  const ir::PhiloxStream stream{seed, static_cast<std::uint32_t>(epoch), ir::stream_hash("data.order")};
  std::vector<std::uint32_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t last = order.size(); last-- > 1;) {
    std::swap(order[last], order[draw_below(stream, last, last + 1)]);
  }
  return order;
}

std::string ImageSource::image_name(std::int64_t index) const {
  return fmt::format("{}: image {}", name(), index);
}

std::vector<std::uint32_t> ImageSource::order(std::uint64_t seed, std::int64_t epoch) const {
  return epoch_order(count(), seed, epoch);
}

std::span<const SourceRow* const> sources() {
  return source_rows();
}

void add_source(const SourceRow& row) {
  source_rows().push_back(&row);
}

std::unique_ptr<ImageSource> make_source(const ir::Selection& selection, const SourceContext& context) {
  const SourceRow& row = ir::find_row(sources(), "data.format", selection.name);
  auto source = row.make(ir::settle(row.schema, selection.values, "data"), context);
  check_labels(
      source->name(), source->count(), [&](std::int64_t i) { return source->label(i); }, context.classes);
  return source;
}

void check_labels(std::string_view source, std::int64_t count,
                  const std::function<std::int64_t(std::int64_t)>& label, std::int64_t classes) {
  std::int64_t wrong = count, least = std::numeric_limits<std::int64_t>::max(), most = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t value = label(i);
    least = std::min(least, value);
    most = std::max(most, value);
    if (value < 0 || (classes > 0 && value >= classes)) wrong = std::min(wrong, i);
  }
  if (wrong == count) return;
  const std::string found = fmt::format("{}: sample {} has label {}, of labels from {} to {}", source, wrong,
                                        label(wrong), least, most);
  if (least < 0) user_error("{}: labels count from 0", found);
  user_error("{}, but the model has {} class{}: set model.classes={}{}", found, classes,
             classes == 1 ? "" : "es", most + 1, least == 1 ? "; class 0 then has no samples" : "");
}

}  // namespace rewire::runtime
