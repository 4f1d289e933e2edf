// `rewire help TOPIC`: pages on subjects common to many commands. Their text is in cli/topics. {{name}} in a
// page is replaced by what the code knows: keys, families, folders, exit codes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace rewire::cli {

struct Topic {
  std::string name, doc;
};
std::vector<Topic> topics();
/// Returns the whole page, in 80 columns.
std::string topic_page(std::string_view name);

/// Returns the page of a recipe's key, or of all keys of a section; nullopt if there is no such key. A
/// section is "data", or "train." with a point because a command has that name.
std::optional<std::string> key_page(std::string_view key);

/// Returns the text of `rewire help`: the topics, one line each.
std::string list_of_topics();

}  // namespace rewire::cli
