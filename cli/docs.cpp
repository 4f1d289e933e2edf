// rewire docs: writes the pages of docs/reference.
#include <filesystem>

#include "cli/commands.h"
#include "cli/network.h"
#include "cli/reference.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "runtime/io/files.h"

namespace rewire::cli {
namespace {

struct DocsRequest {
  std::string output;
  std::vector<std::string> plugin_path;
};

void declare(DocsRequest& request, Options& options) {
  options
      .text("--output", request.output, "the folder that the pages are written to", Options::Need::required)
      .takes(Values::folder);
  declare_plugin_path(request.plugin_path, options);
  options.example("rewire docs --output reference",
                  "write keys, models, choices, plugins, ops, commands and files as Markdown");
}

void run(const DocsRequest& request) {
  std::error_code error;
  std::filesystem::create_directories(request.output, error);
  if (error) user_error("docs: cannot make the folder {}: {}", request.output, error.message());
  for (const ReferencePage& page : reference_pages(request.plugin_path)) {
    runtime::write_file_atomically(request.output + "/" + page.file, page.text);
    print("{}/{}\n", request.output, page.file);
  }
}

}  // namespace

Command docs_command() {
  return make_command<DocsRequest>("docs", "write the reference as Markdown: keys, models, ops, commands",
                                   declare, run);
}

}  // namespace rewire::cli
