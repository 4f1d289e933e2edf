#include "runtime/sweep/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>

#include "programs/objective.h"
#include "runtime/io/csv.h"
#include "runtime/sweep/cells.h"

namespace rewire::runtime {
namespace {

using Values = std::vector<std::pair<std::string, double>>;

/// A column of numbers: its head, its name in files, the factor for display, and the digits.
struct Column {
  std::string head, name;
  std::function<Statistic(const SweepRow&)> statistic;
  double factor;
  int digits;
};

/// Returns the columns of the runs' metrics, then those of the numbers that all runs have.
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
  add("samples/s", "samples_per_s", &SweepRow::samples_per_s, 0);
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

/// Returns "3"; if not all runs have finished, "2 of 3, 1 failed".
std::string run_count(const SweepRow& row) {
  const std::int64_t all = row.finished + row.failed + row.left;
  if (row.finished == all) return fmt::format("{}", all);
  return fmt::format("{} of {}{}", row.finished, all,
                     row.failed == 0 ? "" : fmt::format(", {} failed", row.failed));
}

std::string varied_text(const SweepRow& row) {
  return fmt::format("{}", fmt::join(row.varied, " "));
}

bool has_settings(const std::vector<SweepRow>& rows) {
  return std::ranges::any_of(rows, [](const SweepRow& row) { return !row.varied.empty(); });
}

CellTable cells_of(const std::vector<SweepRow>& rows) {
  const std::vector<Column> columns = columns_of(rows);
  CellTable table(1);
  table[0].push_back({"plugins"});
  if (has_settings(rows)) table[0].push_back({"settings"});
  table[0].push_back({"runs"});
  for (const Column& column : columns) table[0].push_back({column.head});
  for (const SweepRow& row : rows) {
    std::vector<Cell> line = {{row.label}};
    if (has_settings(rows)) line.push_back({varied_text(row)});
    line.push_back({run_count(row)});
    for (const Column& column : columns) line.push_back({cell(column.statistic(row), column)});
    table.push_back(std::move(line));
  }
  return table;
}

const Difference* difference_of(const SweepRow& row, const std::string& name) {
  const auto found = std::ranges::find(row.differences, name, &std::pair<std::string, Difference>::first);
  return found == row.differences.end() ? nullptr : &found->second;
}

/// Returns the columns for which some row has a difference.
std::vector<Column> judged_columns(const std::vector<SweepRow>& rows) {
  std::vector<Column> judged;
  for (Column& column : columns_of(rows)) {
    if (std::ranges::any_of(rows,
                            [&](const SweepRow& row) { return difference_of(row, column.name) != nullptr; }))
      judged.push_back(std::move(column));
  }
  return judged;
}

/// "+0.42 [-0.10, +0.94]"; for one pair, the difference alone.
Cell difference_cell(const Difference* difference, const Column& column) {
  if (difference == nullptr || difference->pairs == 0) return {"–"};
  const auto text = [&](double value) {
    return fmt::format("{:+.{}f}", column.factor * value, column.digits);
  };
  if (difference->pairs == 1) return {text(difference->mean)};
  return {fmt::format("{} [{}, {}]", text(difference->mean), text(difference->low), text(difference->high)),
          difference->separates()};
}

/// Returns a line for each row that is compared with another; empty if there is none.
CellTable difference_cells(const std::vector<SweepRow>& rows) {
  const std::vector<Column> columns = judged_columns(rows);
  if (columns.empty()) return {};
  CellTable table(1);
  table[0].push_back({"plugins"});
  if (has_settings(rows)) table[0].push_back({"settings"});
  table[0].push_back({"against"});
  table[0].push_back({"seeds"});
  for (const Column& column : columns) table[0].push_back({column.head});
  for (const SweepRow& row : rows) {
    if (row.differences.empty()) continue;
    std::vector<Cell> line = {{row.label}};
    if (has_settings(rows)) line.push_back({varied_text(row)});
    std::int64_t pairs = 0;
    for (const auto& [name, difference] : row.differences) pairs = std::max(pairs, difference.pairs);
    line.push_back({row.against});
    line.push_back({fmt::format("{}", pairs)});
    for (const Column& column : columns)
      line.push_back(difference_cell(difference_of(row, column.name), column));
    table.push_back(std::move(line));
  }
  return table;
}

/// Returns the second table's title; `mark` says what its marked cells look like.
std::string differences_title(const std::vector<SweepRow>& rows, const char* mark) {
  const bool has_interval = std::ranges::any_of(rows, [](const SweepRow& row) {
    return std::ranges::any_of(row.differences, [](const auto& one) { return one.second.pairs > 1; });
  });
  if (!has_interval) return "Differences for one seed: more seeds are needed to tell them from chance.";
  return fmt::format("Paired differences over seeds, mean [95 % interval]; {}: the interval excludes 0.",
                     mark);
}

/// Returns the table of the rows, then that of the differences, both in the format of `form`.
template <class Form>
std::string both_tables(const std::vector<SweepRow>& rows, const std::string& title, Form form) {
  const CellTable differences = difference_cells(rows);
  std::string text = form(cells_of(rows));
  if (!differences.empty()) text += "\n" + title + "\n\n" + form(differences);
  return text;
}

/// Returns the numbers of each metric, in the order of the first record that has it.
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

using SeededRecords = std::vector<std::pair<std::int64_t, RunRecord>>;

/// Divides all images by all seconds, which is not the mean of rates. The deviation
/// is that of the runs' rates.
Statistic speed_of(const SeededRecords& records) {
  std::vector<double> rates;
  double images = 0, seconds = 0;
  for (const auto& [seed, record] : records) {
    rates.push_back(record.samples_per_s);
    images += record.samples_per_s * record.train_seconds;
    seconds += record.train_seconds;
  }
  Statistic statistic = statistic_of(rates);
  if (seconds > 0) statistic.mean = images / seconds;
  return statistic;
}

void add_statistics(SweepRow& row, const SeededRecords& seeded) {
  std::vector<RunRecord> records;
  for (const auto& [seed, record] : seeded) records.push_back(record);
  const auto of = [&](double RunRecord::* number) {
    std::vector<double> values;
    for (const RunRecord& record : records) values.push_back(record.*number);
    return statistic_of(values);
  };
  for (const auto& [name, numbers] : metric_numbers(records))
    row.metrics.emplace_back(name, statistic_of(numbers));
  row.test_loss = of(&RunRecord::test_loss);
  row.train_loss = of(&RunRecord::train_loss);
  row.samples_per_s = speed_of(seeded);
  row.peak_mb = of(&RunRecord::peak_mb);
  row.wall_seconds = of(&RunRecord::wall_seconds);
}

/// Returns the values that a run is judged by, under their names in files.
Values judged_by(const RunRecord& record) {
  Values values;
  for (const MetricValue& metric : record.metrics) values.emplace_back(metric.name, metric.value);
  values.emplace_back("test_loss", record.test_loss);
  values.emplace_back("train_loss", record.train_loss);
  return values;
}

/// Returns the paired difference of each value, over the seeds that both have.
std::vector<std::pair<std::string, Difference>> differences_to(const SeededRecords& baseline,
                                                               const SeededRecords& records) {
  std::map<std::string, std::vector<std::pair<double, double>>> pairs;
  for (const auto& [seed, record] : records) {
    const auto other = std::ranges::find(baseline, seed, &std::pair<std::int64_t, RunRecord>::first);
    if (other == baseline.end()) continue;
    const Values before = judged_by(other->second);
    for (const auto& [name, value] : judged_by(record)) {
      const auto same = std::ranges::find(before, name, &std::pair<std::string, double>::first);
      if (same != before.end()) pairs[name].emplace_back(same->second, value);
    }
  }
  std::vector<std::pair<std::string, Difference>> differences;
  for (const auto& [name, of_name] : pairs) differences.emplace_back(name, paired_difference(of_name));
  return differences;
}

/// Returns the row to compare `row` with: the first strategy's row of the same settings. For the first
/// strategy's own rows, this is `row` itself. If there is only one strategy, it is the first row.
std::size_t baseline_of(const std::vector<SweepRow>& rows, std::size_t row) {
  const bool has_others =
      std::ranges::any_of(rows, [&](const SweepRow& one) { return one.label != rows[0].label; });
  if (!has_others) return 0;
  for (std::size_t i = 0; i < row; ++i)
    if (rows[i].label == rows[0].label && rows[i].varied == rows[row].varied) return i;
  return row;
}

}  // namespace

std::vector<SweepRow> sweep_rows(const std::vector<SweepRun>& runs,
                                 const std::vector<std::optional<RunRecord>>& records) {
  std::vector<SweepRow> rows;
  std::vector<SeededRecords> finished;
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
      finished[run.row].emplace_back(run.seed.value_or(0), *record);
    } else {
      ++(record && record->status == RunRecord::Status::failed ? row.failed : row.left);
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    add_statistics(rows[i], finished[i]);
    const std::size_t baseline = baseline_of(rows, i);
    if (baseline == i) continue;
    rows[i].against =
        rows[baseline].label != rows[i].label ? rows[baseline].label : varied_text(rows[baseline]);
    rows[i].differences = differences_to(finished[baseline], finished[i]);
  }
  return rows;
}

std::string text_table(const std::vector<SweepRow>& rows) {
  return both_tables(rows, differences_title(rows, "*"), aligned_text);
}

std::string markdown_table(const std::vector<SweepRow>& rows) {
  return both_tables(rows, differences_title(rows, "bold"), markdown_text);
}

std::string latex_table(const std::vector<SweepRow>& rows) {
  return both_tables(rows, "% " + differences_title(rows, "bold"), latex_text);
}

std::string csv_table(const std::vector<SweepRow>& rows) {
  const std::vector<Column> columns = columns_of(rows), judged = judged_columns(rows);
  std::string text = "plugins,settings,finished,failed,left";
  for (const Column& column : columns)
    fmt::format_to(std::back_inserter(text), ",{},{}", csv_field(column.name + "_mean"),
                   csv_field(column.name + "_std"));
  if (!judged.empty()) text += ",against";
  for (const Column& column : judged) {
    for (const char* what : {"_pairs", "_difference", "_low", "_high"})
      text += "," + csv_field(column.name + what);
  }
  text += '\n';
  for (const SweepRow& row : rows) {
    text += fmt::format("{},{},{},{},{}", csv_field(row.label), csv_field(varied_text(row)), row.finished,
                        row.failed, row.left);
    for (const Column& column : columns) {
      const Statistic statistic = column.statistic(row);
      text += statistic.count > 0 ? fmt::format(",{}", statistic.mean) : ",";
      text += statistic.count > 1 ? fmt::format(",{}", statistic.deviation) : ",";
    }
    if (!judged.empty()) text += "," + csv_field(row.against);
    for (const Column& column : judged) {
      const Difference* difference = difference_of(row, column.name);
      text += difference == nullptr ? ",," : fmt::format(",{},{}", difference->pairs, difference->mean);
      text += difference == nullptr || difference->pairs < 2
                  ? ",,"
                  : fmt::format(",{},{}", difference->low, difference->high);
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
  text += ",test_loss,train_loss,samples_per_s,train_seconds,peak_mb,wall_seconds,error\n";
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
      text += fmt::format(",{},{},{},{},{},{},\n", record.test_loss, record.train_loss, record.samples_per_s,
                          record.train_seconds, record.peak_mb, record.wall_seconds);
    } else {
      text += fmt::format(",,,,,,,{}\n", csv_field(record.error));
    }
  }
  return text;
}

}  // namespace rewire::runtime
