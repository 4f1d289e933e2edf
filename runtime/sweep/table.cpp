#include "runtime/sweep/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>

namespace rewire::runtime {
namespace {

using Cells = std::vector<std::string>;

/// A column of numbers: its head, the row's statistic, the factor that people read it with, and the digits.
struct Column {
  std::string_view head, name;
  Statistic SweepRow::* statistic;
  double factor;
  int digits;
};
constexpr std::array kColumns = {
    Column{"top-1 %", "top1", &SweepRow::top1, 100, 2},
    Column{"top-5 %", "top5", &SweepRow::top5, 100, 2},
    Column{"test loss", "test_loss", &SweepRow::test_loss, 1, 4},
    Column{"train loss", "train_loss", &SweepRow::train_loss, 1, 4},
    Column{"images/s", "images_per_s", &SweepRow::images_per_s, 1, 0},
    Column{"peak MB", "peak_mb", &SweepRow::peak_mb, 1, 0},
    Column{"wall s", "wall_seconds", &SweepRow::wall_seconds, 1, 0},
};

std::string cell(const Statistic& statistic, const Column& column) {
  if (statistic.count == 0) return "–";
  const std::string mean = fmt::format("{:.{}f}", column.factor * statistic.mean, column.digits);
  if (statistic.count == 1) return mean;
  return fmt::format("{} ± {:.{}f}", mean, column.factor * statistic.deviation, column.digits);
}

/// "3", or where not all are: "2 of 3, 1 failed".
std::string run_count(const SweepRow& row) {
  const std::int64_t all = row.finished + row.failed + row.left;
  if (row.finished == all) return fmt::format("{}", all);
  return fmt::format("{} of {}{}", row.finished, all,
                     row.failed == 0 ? "" : fmt::format(", {} failed", row.failed));
}

std::vector<Cells> cells_of(const std::vector<SweepRow>& rows) {
  const bool has_settings = std::ranges::any_of(rows, [](const SweepRow& r) { return !r.varied.empty(); });
  std::vector<Cells> table = {{"plugins"}};
  if (has_settings) table[0].emplace_back("settings");
  table[0].emplace_back("runs");
  for (const Column& column : kColumns) table[0].emplace_back(column.head);
  for (const SweepRow& row : rows) {
    Cells line = {row.label};
    if (has_settings) line.push_back(fmt::format("{}", fmt::join(row.varied, " ")));
    line.push_back(run_count(row));
    for (const Column& column : kColumns) line.push_back(cell(row.*column.statistic, column));
    table.push_back(std::move(line));
  }
  return table;
}

/// Characters, as a terminal counts them: bytes that begin one.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// Quoted where CSV (RFC 4180) asks for it.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string label_of(const SweepPlugins& plugins) {
  return plugins.flags.empty() ? "the recipe's" : plugins.label;
}

}  // namespace

Statistic statistic_of(const std::vector<double>& values) {
  Statistic statistic;
  statistic.count = std::ssize(values);
  if (values.empty()) return statistic;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) statistic.mean += value / n;
  if (values.size() < 2) return statistic;
  double square = 0;
  for (const double value : values) square += (value - statistic.mean) * (value - statistic.mean);
  statistic.deviation = std::sqrt(square / (n - 1));
  return statistic;
}

std::vector<SweepRow> sweep_rows(const std::vector<SweepRun>& runs,
                                 const std::vector<std::optional<RunRecord>>& records) {
  std::vector<SweepRow> rows;
  std::vector<std::vector<RunRecord>> finished;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const SweepRun& run = runs[i];
    if (run.row == rows.size()) {
      rows.push_back({label_of(*run.plugins), run.varied, 0, 0, 0, {}, {}, {}, {}, {}, {}, {}});
      finished.emplace_back();
    }
    const std::optional<RunRecord>& record = records[i];
    SweepRow& row = rows[run.row];
    if (record && record->status == RunRecord::Status::finished) {
      ++row.finished;
      finished[run.row].push_back(*record);
    } else {
      ++(record && record->status == RunRecord::Status::failed ? row.failed : row.left);
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto of = [&](double RunRecord::* number) {
      std::vector<double> values;
      for (const RunRecord& record : finished[i]) values.push_back(record.*number);
      return statistic_of(values);
    };
    rows[i].top1 = of(&RunRecord::top1);
    rows[i].top5 = of(&RunRecord::top5);
    rows[i].test_loss = of(&RunRecord::test_loss);
    rows[i].train_loss = of(&RunRecord::train_loss);
    rows[i].images_per_s = of(&RunRecord::images_per_s);
    rows[i].peak_mb = of(&RunRecord::peak_mb);
    rows[i].wall_seconds = of(&RunRecord::wall_seconds);
  }
  return rows;
}

std::string text_table(const std::vector<SweepRow>& rows) {
  const std::vector<Cells> table = cells_of(rows);
  std::vector<std::size_t> widths(table[0].size(), 0);
  for (const Cells& line : table) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width(line[i]));
  }
  std::string text;
  for (const Cells& line : table) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += line[i];
      if (i + 1 < line.size()) text.append(widths[i] - width(line[i]) + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

std::string markdown_table(const std::vector<SweepRow>& rows) {
  std::vector<Cells> table = cells_of(rows);
  std::string text;
  for (std::size_t i = 0; i < table.size(); ++i) {
    for (std::string& cell : table[i]) {  // a bar would begin another cell
      for (std::size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2)
        cell.insert(at, 1, '\\');
    }
    fmt::format_to(std::back_inserter(text), "| {} |\n", fmt::join(table[i], " | "));
    if (i == 0) {
      for (std::size_t column = 0; column < table[0].size(); ++column) text += "|---";
      text += "|\n";
    }
  }
  return text;
}

std::string csv_table(const std::vector<SweepRow>& rows) {
  std::string text = "plugins,settings,finished,failed,left";
  for (const Column& column : kColumns)
    fmt::format_to(std::back_inserter(text), ",{0}_mean,{0}_std", column.name);
  text += '\n';
  for (const SweepRow& row : rows) {
    text += fmt::format("{},{},{},{},{}", csv_field(row.label),
                        csv_field(fmt::format("{}", fmt::join(row.varied, " "))), row.finished, row.failed,
                        row.left);
    for (const Column& column : kColumns) {
      const Statistic& statistic = row.*column.statistic;
      text += statistic.count > 0 ? fmt::format(",{}", statistic.mean) : ",";
      text += statistic.count > 1 ? fmt::format(",{}", statistic.deviation) : ",";
    }
    text += '\n';
  }
  return text;
}

std::string csv_runs(const std::vector<SweepRun>& runs,
                     const std::vector<std::optional<RunRecord>>& records) {
  std::string text =
      "run,plugins,settings,seed,status,top1,top5,test_loss,train_loss,images_per_s,train_seconds,peak_mb,"
      "wall_seconds,error\n";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const SweepRun& run = runs[i];
    const RunRecord record = records[i].value_or(RunRecord{});
    const bool finished = record.status == RunRecord::Status::finished;
    const bool failed = record.status == RunRecord::Status::failed;
    text += fmt::format("{},{},{},{},{}", csv_field(run.name), csv_field(label_of(*run.plugins)),
                        csv_field(fmt::format("{}", fmt::join(run.varied, " "))),
                        run.seed ? fmt::format("{}", *run.seed) : "",
                        finished ? "finished" : (failed ? "failed" : "left"));
    if (finished) {
      text += fmt::format(",{},{},{},{},{},{},{},{},\n", record.top1, record.top5, record.test_loss,
                          record.train_loss, record.images_per_s, record.train_seconds, record.peak_mb,
                          record.wall_seconds);
    } else {
      text += fmt::format(",,,,,,,,,{}\n", csv_field(record.error));
    }
  }
  return text;
}

}  // namespace rewire::runtime
