// OpenMetrics' text: families of samples with labels (openmetrics.io, version 1.0.0).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rewire::runtime {

class OpenMetrics {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

  /// Begins a family; `unit` is the end of its name, or "".
  void family(std::string_view name, std::string_view type, std::string_view unit, std::string_view help);
  /// Of the last family; a counter's has "_total" behind its name.
  void sample(const Labels& labels, double value);
  /// All of it, with its end.
  std::string text() &&;

 private:
  std::string text_, name_;
};

}  // namespace rewire::runtime
