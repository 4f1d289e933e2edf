// The text of `--help`, from the declarations of the commands: pages of 80 columns, on a terminal or not.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace rewire::cli {

/// The width of a page in columns.
inline constexpr std::size_t kPageWidth = 80;

/// Breaks `text` into lines of at most `width` columns. All but the first begin with `indent` blanks, which
/// count; no line ends in '\n'. A longer word has a line of its own.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent = 0);

/// Returns two columns: a name, and its doc from column `left` on. A long name has a line of its own.
std::string help_row(const std::string& name, const std::string& doc, std::size_t left);

/// Returns the placeholder of an option's value: "FILE", "cpu|cuda", "STAGE"; "" for a flag.
std::string value_name(const OptionInfo& option);
/// Returns an option's doc, with its default, and its choices unless value_name() or the doc has them.
std::string full_doc(const OptionInfo& option);
/// Returns "rewire dump MODEL [OPTIONS]".
std::string usage_of(const Command& command, const Declaration& declaration);

/// Returns a command's page. `further` are the two-word commands that begin with it.
std::string help_of(const Command& command, const Declaration& declaration,
                    const std::vector<Command>& further);
/// Returns the commands, one line each.
std::string list_of(const std::vector<Command>& commands);
/// Returns the page of `rewire --help`: every command.
std::string help_of_all(const std::vector<Command>& commands);

}  // namespace rewire::cli
