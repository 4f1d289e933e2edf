// The built-in objectives. Each has a file of its own and a row here.
#include "programs/objective.h"

namespace rewire::programs {

extern const ObjectiveRow kDiffusion, kMaskedPixels, kNextToken, kSegmentation, kSelfDistillation,
    kSupervised;

namespace {

std::vector<const ObjectiveRow*>& objective_rows() {
  static std::vector<const ObjectiveRow*> rows = {
      &kSupervised, &kMaskedPixels, &kSelfDistillation, &kSegmentation, &kNextToken, &kDiffusion,
  };
  return rows;
}

constexpr std::string_view kRemembered = "objective.";

/// Metrics of features, which every objective can have.
const MetricInfo kOfNeighbours[] = {{"knn_top1", "k-NN top-1", Shown::percent, Better::higher},
                                    {"knn_top5", "k-NN top-5", Shown::percent, Better::higher}};

}  // namespace

std::span<const ObjectiveRow* const> objectives() {
  return objective_rows();
}

void add_objective(const ObjectiveRow& row) {
  objective_rows().push_back(&row);
}

std::string state_name(const Remembered& state) {
  return std::string(kRemembered) + state.name;
}

bool is_remembered(std::string_view name) {
  return name.starts_with(kRemembered);
}

MetricInfo metric_info(std::string_view name) {
  for (const ObjectiveRow* row : objective_rows()) {
    const auto found = std::ranges::find(row->metrics, name, &MetricInfo::name);
    if (found != row->metrics.end()) return *found;
  }
  for (const MetricInfo& info : kOfNeighbours) {
    if (info.name == name) return info;
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
