// Optimizer settings of one weight, beside those of all weights.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace rewire::ir {

/// Settings that override the run's. An empty one keeps the run's.
struct OptimizerHint {
  std::optional<double> lr_scale;      // factor on the schedule's rate, finite and > 0
  std::optional<double> weight_decay;  // finite and >= 0, in whichever group the weight is; 0: none
  std::optional<double> beta1, beta2;  // in [0, 1), for optimizers that keep such means
  bool operator==(const OptimizerHint&) const = default;
};

struct OptimizerHintField {
  std::string_view name;
  std::optional<double> OptimizerHint::* value;
};
inline constexpr std::array<OptimizerHintField, 4> kOptimizerHintFields = {{
    {"lr_scale", &OptimizerHint::lr_scale},
    {"weight_decay", &OptimizerHint::weight_decay},
    {"beta1", &OptimizerHint::beta1},
    {"beta2", &OptimizerHint::beta2},
}};

/// Returns "" if every given number is within its range, else the faulty one with its range.
std::string hint_fault(const OptimizerHint& hint);
/// Returns "lr_scale 10, weight_decay 0"; "" if nothing is given.
std::string to_string(const OptimizerHint& hint);

}  // namespace rewire::ir
