// The residents: an objective is its file and a row here.
#include "programs/objective.h"

namespace rewire::programs {

extern const ObjectiveRow kDiffusion, kMaskedPixels, kSupervised;

namespace {

std::vector<const ObjectiveRow*>& objective_rows() {
  static std::vector<const ObjectiveRow*> rows = {
      &kSupervised,
      &kMaskedPixels,
      &kDiffusion,
  };
  return rows;
}

}  // namespace

std::span<const ObjectiveRow* const> objectives() {
  return objective_rows();
}

void add_objective(const ObjectiveRow& row) {
  objective_rows().push_back(&row);
}

MetricInfo metric_info(std::string_view name) {
  for (const ObjectiveRow* row : objective_rows()) {
    const auto found = std::ranges::find(row->metrics, name, &MetricInfo::name);
    if (found != row->metrics.end()) return *found;
  }
  if (name.starts_with(kOfAverages)) {
    const MetricInfo info = metric_info(name.substr(kOfAverages.size()));
    return {std::string(name), "EMA " + info.title, info.shown, info.better};
  }
  return {std::string(name), std::string(name), Shown::in_files};
}

std::unique_ptr<Objective> make_objective(const ir::Selection& selection) {
  const ObjectiveRow& row = ir::find_row(objectives(), "objective.name", selection.name);
  return row.make(ir::settle(row.schema, selection.values, "objective"));
}

}  // namespace rewire::programs
