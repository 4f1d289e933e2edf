#include "runtime/train/run_prometheus.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "codegen/files/descriptor.h"
#include "codegen/files/replacing_file.h"
#include "ir/printable.h"
#include "runtime/device/log.h"
#include "runtime/device/process.h"

namespace rewire::runtime {
namespace {

constexpr const char* kFile = "metrics.prom";
constexpr auto kAtMostEvery = std::chrono::seconds(5);

/// Returns the value of a label. The format allows UTF-8 only.
std::string label_text(std::string_view value) {
  std::string escaped;
  for (const char c : visible(value)) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string sample_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

/// Writes the two lines that begin a family of samples.
void begin_family(std::string& text, const char* name, const char* type, const char* help) {
  fmt::format_to(std::back_inserter(text), "# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

}  // namespace

std::string RunPrometheus::text() const {
  std::string text;
  const std::string run = label_text(RunFolder::name_of(folder_.path()));
  const auto one = [&](const char* name, const char* type, const char* help, double value) {
    begin_family(text, name, type, help);
    fmt::format_to(std::back_inserter(text), "{}{{run=\"{}\"}} {}\n", name, run, sample_text(value));
  };
  one("rewire_steps_total", "counter", "Optimizer steps done.", step_);
  one("rewire_planned_steps", "gauge", "Optimizer steps of the whole run.",
      static_cast<double>(plan_.course.total_steps()));
  one("rewire_epoch", "gauge", "Epoch of the last line, counted as in metrics.jsonl.", epoch_);
  one("rewire_planned_epochs", "gauge", "Epochs of the whole run.",
      static_cast<double>(plan_.recipe.train.epochs));
  one("rewire_memory_peak_bytes", "gauge", "Largest resident set of the process.",
      static_cast<double>(peak_memory_bytes()));
  begin_family(text, "rewire_metric", "gauge", "A number of the last line of metrics.jsonl of its kind.");
  for (const auto& [key, value] : values_) {
    fmt::format_to(std::back_inserter(text), "rewire_metric{{run=\"{}\",kind=\"{}\",name=\"{}\"}} {}\n", run,
                   label_text(key.first), label_text(key.second), sample_text(value));
  }
  return text;
}

void RunPrometheus::line(const nlohmann::ordered_json& line) {
  const auto& kind = line.at("kind").get_ref<const std::string&>();
  std::erase_if(values_, [&](const auto& value) { return value.first.first == kind; });
  for (const auto& [name, value] : line.items()) {
    if (name != "kind") values_[{kind, name}] = value.is_number() ? value.get<double>() : NAN;
  }
  step_ = values_[{kind, "step"}];
  epoch_ = values_[{kind, "epoch"}];
  is_behind_ = true;
  if (!written_ || std::chrono::steady_clock::now() - *written_ >= kAtMostEvery) write();
}

void RunPrometheus::end() {
  if (is_behind_) write();
}

void RunPrometheus::write() {
  written_ = std::chrono::steady_clock::now();
  is_behind_ = false;
  const codegen::Descriptor folder(::open(folder_.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  int error = errno;
  if (folder) {
    codegen::ReplacingFile file(folder.get(), kFile, 0666);
    if (file.write(text()) && file.commit(codegen::ReplacingFile::Durability::none)) return;
    error = file.error();
  }
  write_log_once(LogLevel::warning, kFile,
                 fmt::format("the run continues without {}: cannot write it: {}", folder_.file(kFile),
                             std::strerror(error)));
}

}  // namespace rewire::runtime
