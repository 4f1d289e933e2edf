// The built-in diagnostics. Each has a file of its own and a row here.
#include "programs/diagnostic.h"

namespace rewire::programs {

extern const DiagnosticRow kStreams, kRank, kDiversity, kSimilarity, kEntropy, kGradients, kJoinParameters;

namespace {

std::vector<const DiagnosticRow*>& diagnostic_rows() {
  static std::vector<const DiagnosticRow*> rows = {
      &kStreams, &kRank, &kDiversity, &kSimilarity, &kEntropy, &kGradients, &kJoinParameters,
  };
  return rows;
}

}  // namespace

std::span<const DiagnosticRow* const> diagnostics() {
  return diagnostic_rows();
}

void add_diagnostic(const DiagnosticRow& row) {
  diagnostic_rows().push_back(&row);
}

}  // namespace rewire::programs
