// The residents: a source of images is its file and a row here.
#include "ir/error.h"
#include "runtime/data/source.h"

namespace rewire::runtime {

extern const SourceRow kIdxSource, kCifarSource, kFolderSource, kSyntheticSource;

namespace {

std::vector<const SourceRow*>& source_rows() {
  static std::vector<const SourceRow*> rows = {
      &kIdxSource,
      &kCifarSource,
      &kFolderSource,
      &kSyntheticSource,
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

std::unique_ptr<ImageSource> make_source(const ir::Selection& selection, const SourceContext& context) {
  const SourceRow& row = ir::find_row(sources(), "data.format", selection.name);
  auto source = row.make(ir::settle(row.schema, selection.values, "data"), context);
  const std::string name = source->name();
  for (std::int64_t i = 0; i < source->count(); ++i) check_label(name, i, source->label(i), context.classes);
  return source;
}

void check_label(std::string_view source, std::int64_t sample, std::int64_t label, std::int64_t classes) {
  if (label < 0) user_error("{}: sample {} has label {}: labels count from 0", source, sample, label);
  if (classes == 0 || label < classes) return;
  user_error("{}: sample {} has label {}, but the model has {} classes; raise model.classes", source, sample,
             label, classes);
}

}  // namespace rewire::runtime
