// rewire report: writes a page about training runs.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/log.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "runtime/device/log.h"
#include "runtime/io/files.h"
#include "runtime/report/report.h"
#include "runtime/report/report_csv.h"

namespace rewire::cli {
namespace {

struct ReportRequest {
  std::vector<std::string> runs;
  std::string output;
  std::string csv;
  bool json = false;
};

void declare(ReportRequest& request, Options& options) {
  options.texts("RUN", request.runs, "run folders, finished or not").takes(Values::run);
  options
      .text("--output", request.output,
            "the HTML file to write; for a single run report.html in its folder by default; - is stdout")
      .takes(Values::file, {".html"});
  options
      .text("--csv", request.csv,
            "a folder to write tables to instead of the page: train.csv, eval.csv, diagnose.csv")
      .takes(Values::folder);
  options.flag("--json", request.json, "print the page's data instead of writing the page");
  options.example("rewire report runs/fashion_vit-none-s0 runs/fashion_vit-none-s1 --output page.html",
                  "show two runs side by side");
  options.example("rewire report runs/fashion_vit-none-s0",
                  "write report.html into the folder of a run, which may still train");
}

runtime::FilePlace output_of(const ReportRequest& request) {
  if (!request.output.empty() || request.json) return request.output;
  if (request.runs.size() > 1) user_error("report: --output FILE is needed with more than one run");
  return runtime::FilePlace::below(request.runs.front(), "report.html");
}

void write_tables(const ReportRequest& request) {
  if (request.json || !request.output.empty())
    user_error("report: --csv {} and {} cannot be combined: drop one", request.csv,
               request.json ? "--json" : "--output");
  const auto tables = runtime::report_csv(runtime::report_json(request.runs));
  runtime::make_folder(request.csv);
  for (const auto& [name, table] : tables) {
    const std::string file = (std::filesystem::path(request.csv) / name).string();
    runtime::write_file_atomically(file, table);
    print("{}\n", file);
  }
}

void run(const ReportRequest& request) {
  if (!request.csv.empty()) return write_tables(request);
  const runtime::FilePlace output = output_of(request);
  const bool is_stdout = request.output == "-";
  if (!request.output.empty() && !is_stdout) check_output(request.output, request.runs);
  MovingLine progress(!logs_info());
  progress.moving(fmt::format("reading {} run{}", request.runs.size(), request.runs.size() == 1 ? "" : "s"),
                  true);
  const nlohmann::ordered_json data = runtime::report_json(request.runs);
  progress.clear();
  for (const auto& line : data.at("mixed_data"))
    runtime::write_log(runtime::LogLevel::warning, line.get<std::string>());
  if (request.json) return print_json(data, 1);
  const std::string page = runtime::report_page(data);
  if (is_stdout) return write_stdout(page);
  runtime::write_file_atomically(output, page);
  print("{}\n", output.path());
}

}  // namespace

Command report_command() {
  return make_command<ReportRequest>("report", "write a page about runs: curves, figures, recipes", declare,
                                     run);
}

}  // namespace rewire::cli
