// rewire dump --summary: the composition of a training step, and what plugins and joins added.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/exec/engine.h"
#include "runtime/measure/step_summary.h"

namespace rewire::cli {

inline double megabytes(std::int64_t bytes) {
  return static_cast<double>(bytes) * 1e-6;
}

struct Summary {
  std::string model, program;  // "vit_tiny_28", "step"
  std::int64_t batch = 0;
  runtime::StepSummary counts;
  std::optional<runtime::EngineReport> compiled;  // none for a GPU, which need not be present
};

void print_summary(const Summary& summary, bool json);

}  // namespace rewire::cli
