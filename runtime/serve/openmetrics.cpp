#include "runtime/serve/openmetrics.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace rewire::runtime {
namespace {

std::string escaped_label(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return escaped;
}

std::string sample_value(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

void OpenMetrics::family(std::string_view name, std::string_view type, std::string_view unit,
                         std::string_view help) {
  fmt::format_to(std::back_inserter(text_), "# TYPE {} {}\n", name, type);
  if (!unit.empty()) fmt::format_to(std::back_inserter(text_), "# UNIT {} {}\n", name, unit);
  fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n", name, help);
  name_ = type == "counter" ? fmt::format("{}_total", name) : std::string(name);
}

void OpenMetrics::sample(const Labels& labels, double value) {
  text_ += name_;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    fmt::format_to(std::back_inserter(text_), "{}{}=\"{}\"", i == 0 ? "{" : ",", labels[i].first,
                   escaped_label(labels[i].second));
  }
  fmt::format_to(std::back_inserter(text_), "{} {}\n", labels.empty() ? "" : "}", sample_value(value));
}

std::string OpenMetrics::text() && {
  return std::move(text_) + "# EOF\n";
}

}  // namespace rewire::runtime
