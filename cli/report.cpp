// rewire report: one page about training runs.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/program.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/page/page.h"
#include "runtime/report/report.h"

namespace rewire::cli {
namespace {

struct Request {
  std::vector<std::string> runs;
  std::string output;
  bool json = false;
};

void declare(Request& request, Options& options) {
  options.texts("RUN", request.runs, "folders of runs, ended or not").takes(Values::run);
  options
      .text("--output", request.output,
            "the HTML file to write; without it report.html in the folder of a single run; - is stdout")
      .takes(Values::file, {".html"});
  options.flag("--json", request.json, "print the page's data instead of writing the page");
  options.example("rewire report runs/fashion_vit-none-s0 runs/fashion_vit-none-s1 --output page.html",
                  "two runs side by side");
  options.example("rewire report runs/fashion_vit-none-s0",
                  "one, into report.html of its folder; it may be training");
}

std::string output_of(const Request& request) {
  if (!request.output.empty() || request.json) return request.output;
  if (request.runs.size() > 1) user_error("report: --output FILE is needed with more than one run");
  return (std::filesystem::path(request.runs.front()) / "report.html").string();
}

void run(const Request& request) {
  const std::string output = output_of(request);
  if (!request.output.empty() && output != "-") check_output(output, request.runs);
  const nlohmann::ordered_json data = runtime::report_json(request.runs);
  if (request.json) return print_json(data, 1);
  const std::string title = request.runs.size() == 1 ? data["runs"][0]["name"].get<std::string>()
                                                     : fmt::format("{} runs", request.runs.size());
  const std::string page = runtime::make_page(runtime::report_files(), title, data);
  if (output == "-") return write_stdout(page);
  runtime::write_file_atomically(output, page);
  print("{}\n", output);
}

}  // namespace

Command report_command() {
  return make_command<Request>("report", "runs as one page for a browser: curves, figures, recipes", declare,
                               run);
}

}  // namespace rewire::cli
