// What `--help` prints, from what the commands declare: pages of 80 columns, the same on a terminal and elsewhere.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace rewire::cli {

/// The columns of a page.
inline constexpr std::size_t kPageWidth = 80;

/// `text` in lines of at most `width` columns, each but the first behind `indent` blanks that count; no line ends in
/// '\n'. A word that is longer has a line of its own.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent = 0);

/// Two columns: a name, and from column `left` on what it stands for. A long name has a line of its own.
std::string help_row(const std::string& name, const std::string& doc, std::size_t left);

/// What stands for an option's value: "FILE", "cpu|cuda", "STAGE". "" of a flag.
std::string value_name(const OptionInfo& option);
/// What an option does, with its choices where value_name() does not tell them, and its default.
std::string full_doc(const OptionInfo& option);
/// "rewire dump MODEL [OPTIONS]"
std::string usage_of(const Command& command, const Declaration& declaration);

/// The page of a command; `further`: the commands of two words that begin with it.
std::string help_of(const Command& command, const Declaration& declaration,
                    const std::vector<Command>& further);
/// A line each.
std::string list_of(const std::vector<Command>& commands);
/// `rewire --help`: every command.
std::string help_of_all(const std::vector<Command>& commands);

}  // namespace rewire::cli
