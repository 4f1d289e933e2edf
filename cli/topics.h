// `rewire help TOPIC`: pages on what is common to many commands. Their text is in cli/topics; what the code knows (keys,
// families, folders, exit codes) is put into it here, where it says {{name}}.
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
/// The whole page, in 80 columns.
std::string topic_page(std::string_view name);

/// The page of a recipe's key, or of all keys of a section ("data", or "train." with a point, as there are commands of
/// that name); nothing where there is no such key.
std::optional<std::string> key_page(std::string_view key);

/// `rewire help`: the topics, a line each.
std::string list_of_topics();

}  // namespace rewire::cli
