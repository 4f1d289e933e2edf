#include "runtime/sweep/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <string_view>

#include "programs/objective.h"
#include "runtime/io/csv.h"

namespace rewire::runtime {
namespace {

using Cells = std::vector<std::string>;

/// A column of numbers: its head, its name in files, the factor that people read it with, and the digits.
struct Column {
  std::string head, name;
  std::function<Statistic(const SweepRow&)> statistic;
  double factor;
  int digits;
};

/// What the runs were judged by, then what all runs have.
std::vector<Column> columns_of(const std::vector<SweepRow>& rows) {
  std::vector<Column> columns;
  for (const SweepRow& row : rows) {
    for (const auto& [metric, unused] : row.metrics) {
      if (std::ranges::find(columns, metric, &Column::name) != columns.end()) continue;
      const programs::MetricInfo info = programs::metric_info(metric);
      const bool percent = info.shown == programs::Shown::percent;
      const auto statistic = [name = metric](const SweepRow& of) {
        const auto found = std::ranges::find(of.metrics, name, &std::pair<std::string, Statistic>::first);
        return found == of.metrics.end() ? Statistic{} : found->second;
      };
      columns.push_back(
          {info.title + (percent ? " %" : ""), metric, statistic, percent ? 100.0 : 1.0, percent ? 2 : 4});
    }
  }
  const auto add = [&](const char* head, const char* name, Statistic SweepRow::* member, int digits) {
    columns.push_back({head, name, [member](const SweepRow& row) { return row.*member; }, 1, digits});
  };
  add("test loss", "test_loss", &SweepRow::test_loss, 4);
  add("train loss", "train_loss", &SweepRow::train_loss, 4);
  add("images/s", "images_per_s", &SweepRow::images_per_s, 0);
  add("peak MB", "peak_mb", &SweepRow::peak_mb, 0);
  add("wall s", "wall_seconds", &SweepRow::wall_seconds, 0);
  return columns;
}

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
  const std::vector<Column> columns = columns_of(rows);
  std::vector<Cells> table = {{"plugins"}};
  if (has_settings) table[0].emplace_back("settings");
  table[0].emplace_back("runs");
  for (const Column& column : columns) table[0].emplace_back(column.head);
  for (const SweepRow& row : rows) {
    Cells line = {row.label};
    if (has_settings) line.push_back(fmt::format("{}", fmt::join(row.varied, " ")));
    line.push_back(run_count(row));
    for (const Column& column : columns) line.push_back(cell(column.statistic(row), column));
    table.push_back(std::move(line));
  }
  return table;
}

/// Characters, as a terminal counts them: bytes that begin one.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// By the metrics' names, in the order of the first record that has them.
std::vector<std::pair<std::string, std::vector<double>>> metric_numbers(
    const std::vector<RunRecord>& records) {
  std::vector<std::pair<std::string, std::vector<double>>> numbers;
  for (const RunRecord& record : records) {
    for (const auto& [name, value] : record.metrics) {
      auto found = std::ranges::find(numbers, name, &std::pair<std::string, std::vector<double>>::first);
      if (found == numbers.end()) found = numbers.insert(numbers.end(), {name, {}});
      found->second.push_back(value);
    }
  }
  return numbers;
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
      SweepRow& row = rows.emplace_back();
      row.label = label_of(*run.plugins);
      row.varied = run.varied;
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
    for (const auto& [name, numbers] : metric_numbers(finished[i]))
      rows[i].metrics.emplace_back(name, statistic_of(numbers));
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
  const std::vector<Column> columns = columns_of(rows);
  std::string text = "plugins,settings,finished,failed,left";
  for (const Column& column : columns)
    fmt::format_to(std::back_inserter(text), ",{},{}", csv_field(column.name + "_mean"),
                   csv_field(column.name + "_std"));
  text += '\n';
  for (const SweepRow& row : rows) {
    text += fmt::format("{},{},{},{},{}", csv_field(row.label),
                        csv_field(fmt::format("{}", fmt::join(row.varied, " "))), row.finished, row.failed,
                        row.left);
    for (const Column& column : columns) {
      const Statistic statistic = column.statistic(row);
      text += statistic.count > 0 ? fmt::format(",{}", statistic.mean) : ",";
      text += statistic.count > 1 ? fmt::format(",{}", statistic.deviation) : ",";
    }
    text += '\n';
  }
  return text;
}

std::string csv_runs(const std::vector<SweepRun>& runs,
                     const std::vector<std::optional<RunRecord>>& records) {
  std::vector<RunRecord> known;
  for (const std::optional<RunRecord>& record : records) {
    if (record) known.push_back(*record);
  }
  const auto metrics = metric_numbers(known);
  std::string text = "run,plugins,settings,seed,status";
  for (const auto& [name, numbers] : metrics) text += "," + csv_field(name);
  text += ",test_loss,train_loss,images_per_s,train_seconds,peak_mb,wall_seconds,error\n";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const SweepRun& run = runs[i];
    const RunRecord record = records[i].value_or(RunRecord{});
    const bool finished = record.status == RunRecord::Status::finished;
    const bool failed = record.status == RunRecord::Status::failed;
    text += fmt::format("{},{},{},{},{}", csv_field(run.name), csv_field(label_of(*run.plugins)),
                        csv_field(fmt::format("{}", fmt::join(run.varied, " "))),
                        run.seed ? fmt::format("{}", *run.seed) : "",
                        finished ? "finished" : (failed ? "failed" : "left"));
    for (const auto& [name, numbers] : metrics) {
      const auto metric = std::ranges::find(record.metrics, name, &MetricValue::name);
      text += metric == record.metrics.end() ? "," : fmt::format(",{}", metric->value);
    }
    if (finished) {
      text += fmt::format(",{},{},{},{},{},{},\n", record.test_loss, record.train_loss, record.images_per_s,
                          record.train_seconds, record.peak_mb, record.wall_seconds);
    } else {
      text += fmt::format(",,,,,,,{}\n", csv_field(record.error));
    }
  }
  return text;
}

}  // namespace rewire::runtime
