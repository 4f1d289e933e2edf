// Manual pages (section 1) in roff, from what the commands declare.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace rewire::cli {

/// "rewire-data-info"
std::string man_name(const Command& command);
/// The page of a command.
std::string man_page(const Command& command, const Declaration& declaration);
/// rewire(1): every command, exit codes, the environment.
std::string man_page_of_all(const std::vector<Command>& commands);

}  // namespace rewire::cli
