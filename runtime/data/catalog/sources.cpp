// The built-in sources. Each has its own file and a row here.
#include "runtime/data/catalog/sources.h"

#include <utility>

#include "ir/error.h"

namespace rewire::runtime {

extern const SourceRow kIdxSource, kCifarSource, kFolderSource, kTinyImagenetSource, kNpySource,
    kShardsSource, kSyntheticSource, kTokensSource, kTextSource;

namespace {

std::vector<const SourceRow*>& source_rows() {
  static std::vector<const SourceRow*> rows = {
      &kIdxSource, &kCifarSource,     &kFolderSource, &kTinyImagenetSource, &kShardsSource,
      &kNpySource, &kSyntheticSource, &kTokensSource, &kTextSource,
  };
  return rows;
}

}  // namespace

std::span<const SourceRow* const> sources() {
  return source_rows();
}

void add_source(const SourceRow& row) {
  source_rows().push_back(&row);
}

std::unique_ptr<Source> make_source(const ir::Selection& selection, const SourceContext& context) {
  const SourceRow& row = ir::find_row(sources(), "data.format", selection.name);
  std::unique_ptr<Source> source = row.make(ir::settle(row.schema, selection.values, "data"), context);
  if (const auto* images = dynamic_cast<const ImageSource*>(source.get())) {
    check_labels(
        images->name(), images->count(), [&](std::int64_t i) { return images->label(i); },
        image_context(context).classes);
  }
  return source;
}

std::unique_ptr<ImageSource> images_of(std::unique_ptr<Source>& source) {
  auto* const images = dynamic_cast<ImageSource*>(source.get());
  if (images == nullptr) return nullptr;
  static_cast<void>(source.release());
  return std::unique_ptr<ImageSource>(images);
}

std::unique_ptr<ImageSource> make_image_source(const ir::Selection& selection, const ImageContext& context) {
  std::unique_ptr<Source> source = make_source(selection, source_context(context));
  std::unique_ptr<ImageSource> images = images_of(source);
  if (images == nullptr) user_error("data.format={} has no images", selection.name);
  return images;
}

}  // namespace rewire::runtime
