// Manual pages (section 1) in roff, from the commands' declarations.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace rewire::cli {

/// Returns "rewire-data-info".
std::string man_name(const Command& command);
/// Returns a command's page.
std::string man_page(const Command& command, const Declaration& declaration);
/// Returns rewire(1): every command, exit codes, the environment.
std::string man_page_of_all(const std::vector<Command>& commands);

}  // namespace rewire::cli
