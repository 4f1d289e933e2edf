// The pages of docs/reference: keys, models, residents, plugins, ops, commands and files, from the schemas and
// declarations that the program itself reads.
#pragma once

#include <string>
#include <vector>

namespace rewire::cli {

struct ReferencePage {
  std::string file;  // "keys.md"
  std::string text;  // Markdown
};

/// Returns every page. `plugin_path`: the folders that plugins are looked for in first.
std::vector<ReferencePage> reference_pages(const std::vector<std::string>& plugin_path);

}  // namespace rewire::cli
