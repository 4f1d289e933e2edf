#include "cli/diff_print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/streams.h"
#include "runtime/diff/align.h"

namespace rewire::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kRows = 8;    // of a list, without --full
constexpr std::size_t kHunks = 3;   // of a module or of kernels
constexpr std::size_t kLines = 20;  // of a hunk

struct Limits {
  std::size_t rows = kRows, hunks = kHunks, lines = kLines;
};
constexpr Limits kNoLimits = {static_cast<std::size_t>(-1), static_cast<std::size_t>(-1),
                              static_cast<std::size_t>(-1)};

std::string scaled(double value, const char* unit) {
  const char* prefix = "";
  for (const char* next : {"k", "M", "G", "T"}) {
    if (std::abs(value) < 1000) break;
    value /= 1000;
    prefix = next;
  }
  return *prefix == '\0' ? fmt::format("{:.0f} {}", value, unit)
                         : fmt::format("{:.3g} {}{}", value, prefix, unit);
}

std::string bytes_text(const Json& value) {
  return scaled(value.get<double>(), "B");
}

std::string flops_text(const Json& value) {
  return scaled(value.get<double>(), "flop");
}

std::string ms_text(const Json& value) {
  return fmt::format("{:.3f} ms", value.get<double>());
}

/// Returns a value as text. null is a value that one side lacks, and becomes "(none)".
std::string value_text(const Json& value) {
  if (value.is_null()) return "(none)";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return value.dump();
}

/// Returns "12 MB -> 14 MB (+16.7 %)", or "12 MB" if both are the same.
template <class Text>
std::string change_text(const Json& a, const Json& b, const Text& text) {
  if (a == b) return text(a);
  std::string change = fmt::format("{} -> {}", text(a), text(b));
  const double before = a.get<double>(), after = b.get<double>();
  if (before != 0) change += fmt::format(" ({:+.1f} %)", (after / before - 1) * 100);
  return change;
}

void print_line(const std::string& subject, const std::string& text) {
  print("{:<11} {}\n", subject, text);
}

void print_left_out(std::size_t count, const char* what) {
  if (count > 0) print("  … {} more {}; --full prints them\n", count, what);
}

std::string in_alike(std::size_t count) {
  return count == 1 ? "" : fmt::format("  x{}", count);
}

/// Prints rows of {"key", "a", "b"}. Rows that differ only in their blocks are merged.
void print_rows(const char* title, const Json& rows, const Limits& limits) {
  if (rows.empty()) return;
  std::map<std::string, std::size_t> counts;
  std::vector<std::pair<std::string, const Json*>> groups;
  const auto group_of = [](const Json& row) {
    return runtime::of_any_block(value_text(row["key"])) + '\0' +
           runtime::of_any_block(value_text(row["a"])) + '\0' + runtime::of_any_block(value_text(row["b"]));
  };
  for (const Json& row : rows) {
    const std::string group = group_of(row);
    if (counts[group]++ == 0) groups.emplace_back(group, &row);
  }
  print("\n{}\n", title);
  for (std::size_t i = 0; i < std::min(groups.size(), limits.rows); ++i) {
    const auto& [group, row] = groups[i];
    const std::size_t count = counts.at(group);
    const std::string key = value_text((*row)["key"]);
    print("  {}{}\n", count == 1 ? key : runtime::of_any_block(key), in_alike(count));
    print("    - {}\n    + {}\n", value_text((*row)["a"]), value_text((*row)["b"]));
  }
  print_left_out(groups.size() - std::min(groups.size(), limits.rows), "of them");
}

void print_hunk(const Json& hunk, std::size_t alike, const Limits& limits) {
  const std::string at = value_text(hunk["at"]);
  std::string others;
  if (alike > 1) others = fmt::format(", and {} more like it", alike - 1);
  print("@@ {}{} @@\n", at.empty() ? "no place" : at, others);
  const Json& lines = hunk["lines"];
  for (std::size_t i = 0; i < std::min(lines.size(), limits.lines); ++i)
    print("{} {}\n", lines[i]["sign"].get<std::string>(), lines[i]["text"].get<std::string>());
  print_left_out(lines.size() - std::min(lines.size(), limits.lines), "lines");
}

/// Prints the first hunk of each kind.
void print_hunks(const Json& hunks, const Limits& limits) {
  std::map<std::size_t, std::size_t> counts;
  for (const Json& hunk : hunks) ++counts[hunk["like"].get<std::size_t>()];
  std::size_t printed = 0;
  for (const auto& [first, count] : counts) {
    if (printed == limits.hunks) break;
    print_hunk(hunks[first], count, limits);
    ++printed;
  }
  print_left_out(counts.size() - printed, "places");
}

std::size_t hunks_in(const Json& stage) {
  std::size_t count = 0;
  for (const Json& function : stage["functions"]) count += function["hunks"].size();
  return count;
}

std::string stage_text(const Json& stage) {
  if (stage["functions"].empty() && stage["declarations"].empty()) return "the same";
  const Json &a = stage["ops"][0], &b = stage["ops"][1];
  std::string text =
      a == b ? fmt::format("{} ops", a.dump()) : fmt::format("{} -> {} ops", a.dump(), b.dump());
  const std::size_t places = hunks_in(stage);
  if (places > 0) {
    text += fmt::format(", {} lines removed and {} added in {} place{}", stage["gone"].dump(),
                        stage["added"].dump(), places, places == 1 ? "" : "s");
  }
  if (const std::size_t declared = stage["declarations"].size(); declared > 0)
    text += fmt::format(", {} declaration{}", declared, declared == 1 ? "" : "s");
  return text;
}

std::string status_counts(const Json& rows) {
  std::map<std::string, std::size_t> counts;
  for (const Json& row : rows) ++counts[row["status"].get<std::string>()];
  std::vector<std::string> parts;
  for (const char* status : {"gone", "added", "changed", "renamed"}) {
    if (counts.contains(status)) parts.push_back(fmt::format("{} {}", counts[status], status));
  }
  if (counts.contains("assembly"))
    parts.push_back(fmt::format("{} with different assembly", counts["assembly"]));
  return parts.empty() ? "the same" : fmt::format("{}", fmt::join(parts, ", "));
}

const Json& row_of(const Json& rows, std::string_view key) {
  return *std::ranges::find_if(rows, [&](const Json& row) { return row["key"] == key; });
}

void print_network_summary(const Json& diff) {
  for (const Json& row : diff["about"])
    print_line(value_text(row["key"]), fmt::format("{} -> {}", value_text(row["a"]), value_text(row["b"])));
  const std::size_t joins = diff["joins"].size();
  print_line("joins", joins == 0 ? "the same" : fmt::format("{} with another formula", joins));
  for (const char* stage : {"ir", "rewritten", "step"}) print_line(stage, stage_text(diff["stages"][stage]));
  const Json& kernels = diff["kernels"];
  print_line("launches", status_counts(kernels["rows"]));
  const auto number = [](const Json& value) { return value.dump(); };
  for (const char* key : {"kernels", "codes", "products", "calls"}) {
    const Json& row = row_of(kernels["totals"], key);
    if (row["a"] != row["b"]) print_line(key, fmt::format("{} -> {}", number(row["a"]), number(row["b"])));
  }
  const auto total = [&](const char* key, const char* name, auto text) {
    const Json& row = row_of(kernels["totals"], key);
    if (!row["a"].is_null() && !row["b"].is_null() && row["a"] != row["b"])
      print_line(name, change_text(row["a"], row["b"], text));
  };
  total("bytes", "moved", bytes_text);
  total("flops", "computed", flops_text);
  total("ms", "time", ms_text);
  bool same_memory = true;
  for (const Json& row : diff["memory"]) {
    if (row["a"] == row["b"]) continue;
    same_memory = false;
    print_line(value_text(row["key"]), change_text(row["a"], row["b"], bytes_text));
  }
  if (same_memory) print_line("memory", "the same");
  const Json& choices = diff["choices"];
  print_line("choices", choices.is_null() ? "not compared: one side lacks them"
                        : choices.empty() ? "the same"
                                          : fmt::format("{} differ", choices.size()));
}

/// Launches that changed in the same way, in one or several blocks.
struct LaunchGroup {
  const Json* row = nullptr;
  std::size_t count = 0;
};

std::string launch_name(const Json& row, bool of_any) {
  const auto name = [&](const Json& value) {
    const std::string text = value_text(value);
    return of_any ? runtime::of_any_block(text) : text;
  };
  const Json &a = row["name"][0], &b = row["name"][1];
  if (row["kind"] == "product") return fmt::format("{} at {}", name(a.is_null() ? b : a), name(row["at"]));
  if (a.is_null()) return name(b);
  if (b.is_null() || a == b) return name(a);
  return fmt::format("{} -> {}", name(a), name(b));
}

std::vector<LaunchGroup> launch_groups(const Json& rows) {
  std::vector<LaunchGroup> groups;
  std::map<std::string, std::size_t> numbers;
  for (const Json& row : rows) {
    const std::string key = fmt::format("{} {} {} {}", row["status"].dump(), launch_name(row, true),
                                        row["bytes"].dump(), row["flops"].dump());
    const auto [at, fresh] = numbers.emplace(key, groups.size());
    if (fresh) groups.push_back({&row, 0});
    ++groups[at->second].count;
  }
  return groups;
}

template <class Text>
std::string side_text(const Json& pair, const Text& text) {
  if (pair[0].is_null() && pair[1].is_null()) return "";
  if (pair[0].is_null()) return ", " + text(pair[1]);
  if (pair[1].is_null()) return ", " + text(pair[0]);
  return ", " + change_text(pair[0], pair[1], text);
}

void print_launches(const Json& kernels, const Limits& limits) {
  const std::vector<LaunchGroup> groups = launch_groups(kernels["rows"]);
  if (groups.empty()) return;
  print("\nlaunches\n");
  for (std::size_t i = 0; i < std::min(groups.size(), limits.rows); ++i) {
    const Json& row = *groups[i].row;
    print("  {:<8} {}{}{}{}{}\n", value_text(row["status"]), launch_name(row, groups[i].count > 1),
          in_alike(groups[i].count), side_text(row["bytes"], bytes_text), side_text(row["flops"], flops_text),
          side_text(row["ms"], ms_text));
  }
  print_left_out(groups.size() - std::min(groups.size(), limits.rows), "of them");
}

/// Prints the kernels whose time differs. Launches with the same code have the same time. Launches that
/// differ only in their blocks share a line.
void print_kernel_times(const Json& times, const Limits& limits) {
  std::vector<std::pair<std::string, std::size_t>> lines;
  std::map<std::string, std::size_t> numbers;
  for (const Json& row : times) {
    if (row["ms"][0] == row["ms"][1]) continue;
    const std::string name = runtime::of_any_block(value_text(row["name"]));
    const std::string change = change_text(row["ms"][0], row["ms"][1], ms_text);
    const auto [at, fresh] = numbers.emplace(name + change, lines.size());
    if (fresh) lines.emplace_back(change + "  " + name, 0);
    ++lines[at->second].second;
  }
  if (lines.empty()) return;
  print("\ntimes of unchanged launches, largest difference first\n");
  for (std::size_t i = 0; i < std::min(lines.size(), limits.rows); ++i)
    print("  {}{}\n", lines[i].first, in_alike(lines[i].second));
  print_left_out(lines.size() - std::min(lines.size(), limits.rows), "of them");
}

/// Prints the first stage that differs, which shows the change. With --full, also prints the later stages,
/// which show the effects of the change.
void print_stages(const Json& stages, bool full) {
  const Limits limits = full ? kNoLimits : Limits();
  for (const auto& [name, stage] : stages.items()) {
    if (stage["functions"].empty() && stage["declarations"].empty()) continue;
    print_rows(fmt::format("{}: declarations", name).c_str(), stage["declarations"], limits);
    for (const Json& function : stage["functions"]) {
      print("\n{}: {}\n", name, value_text(function["name"]));
      print_hunks(function["hunks"], limits);
    }
    if (!full) return;
  }
}

void print_codes(const Json& kernels) {
  std::vector<bool> seen(kernels["codes"].size());
  for (const Json& row : kernels["rows"]) {
    if (row["code"].is_null() || seen[row["code"].get<std::size_t>()]) continue;
    seen[row["code"].get<std::size_t>()] = true;
    print("\ntile IR: {} {}\n", value_text(row["status"]), launch_name(row, false));
    for (const Json& hunk : kernels["codes"][row["code"].get<std::size_t>()]["hunks"]) {
      print("@@\n");
      for (const Json& line : hunk["lines"])
        print("{} {}\n", line["sign"].get<std::string>(), line["text"].get<std::string>());
    }
  }
}

void print_networks(const Json& diff, bool full) {
  const Limits limits = full ? kNoLimits : Limits();
  print_network_summary(diff);
  print_rows("joins", diff["joins"], limits);
  print_stages(diff["stages"], full);
  print_launches(diff["kernels"], limits);
  if (full) print_codes(diff["kernels"]);
  print_kernel_times(diff["kernels"]["times"], limits);
  if (!diff["choices"].is_null()) print_rows("choices", diff["choices"], limits);
}

std::string both_text(const Json& pair) {
  return pair[0] == pair[1] ? value_text(pair[0])
                            : fmt::format("{} -> {}", value_text(pair[0]), value_text(pair[1]));
}

std::string metric_name(const Json& row) {
  return value_text(row["kind"]) + " " + value_text(row["name"]);
}

bool is_other_metric(const Json& row) {
  return !row["part"].is_null() || row["lines"][0] != row["lines"][1];
}

void print_metrics(const Json& rows, const Limits& limits) {
  std::vector<const Json*> shown;
  for (const Json& row : rows) {
    if (is_other_metric(row)) shown.push_back(&row);
  }
  if (shown.empty()) return;
  print("\nmetrics\n");
  for (std::size_t i = 0; i < std::min(shown.size(), limits.rows); ++i) {
    const Json& row = *shown[i];
    std::string text = fmt::format("final {}", both_text(row["final"]));
    if (!row["best"][0].is_null() || !row["best"][1].is_null())
      text += fmt::format(", best {}", both_text(row["best"]));
    if (row["lines"][0] != row["lines"][1])
      text += fmt::format(", {} -> {} lines", row["lines"][0].dump(), row["lines"][1].dump());
    if (const Json& part = row["part"]; !part.is_null()) {
      text += fmt::format(", diverge at step {} ({} and {})", part["step"].dump(), value_text(part["a"]),
                          value_text(part["b"]));
    }
    print("  {}: {}\n", metric_name(row), text);
  }
  print_left_out(shown.size() - std::min(shown.size(), limits.rows), "of them");
}

/// Returns the earliest step at which a value of training or evaluation differs; null if there is none.
Json first_parting(const Json& rows) {
  Json first;
  for (const Json& row : rows) {
    const Json& part = row["part"];
    if (!part.is_null() && (first.is_null() || part["step"] < first["step"])) first = part;
  }
  return first;
}

void print_runs(const Json& diff, bool full) {
  const Limits limits = full ? kNoLimits : Limits();
  const auto counted = [](const Json& rows) {
    return rows.empty() ? std::string("the same") : fmt::format("{} differ", rows.size());
  };
  for (const char* subject : {"recipe", "plugins", "environment", "choices"})
    print_line(subject, counted(diff[subject]));
  const Json part = first_parting(diff["metrics"]);
  const bool same = std::ranges::none_of(diff["metrics"], is_other_metric);
  print_line("metrics", same             ? "the same"
                        : part.is_null() ? "the same in all common steps"
                                         : fmt::format("diverge at step {}", part["step"].dump()));
  for (const Json& row : diff["speed"]) {
    if (row["name"] == "samples_per_s")
      print_line("samples/s", fmt::format("final {}", both_text(row["final"])));
  }
  for (const char* subject : {"recipe", "plugins", "environment", "choices"})
    print_rows(subject, diff[subject], limits);
  print_metrics(diff["metrics"], limits);
}

}  // namespace

void print_diff(const Json& diff, bool full) {
  print("a: {}\nb: {}\n", value_text(diff["a"]), value_text(diff["b"]));
  const bool of_networks = diff["kind"] == "networks";
  if (diff["same"].get<bool>()) {
    print("no difference{}\n", of_networks ? " in the network and its training step" : "");
    if (of_networks) print_kernel_times(diff["kernels"]["times"], full ? kNoLimits : Limits());
    return;
  }
  print("\n");
  of_networks ? print_networks(diff, full) : print_runs(diff, full);
}

}  // namespace rewire::cli
