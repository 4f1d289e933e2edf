#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace rewire::cli {
namespace {

constexpr std::size_t kLongestChoices = 20;  // characters that replace a value's name
constexpr std::size_t kLeft = 24;            // columns of option names, with the blanks around them

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

/// Returns the name of an option's value: "LEVEL" for "--log-level".
std::string upper(std::string_view word) {
  std::string name;
  word.remove_prefix(word.rfind('-') + 1);
  for (const char c : word) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string name_of_kind(const OptionInfo& option) {
  switch (option.values.kind) {
    case Values::file:
      return "FILE";
    case Values::named_file:
      return "NAME=FILE";
    case Values::folder:
      return "FOLDER";
    case Values::run:
      return "RUN";
    case Values::model:
      return "MODEL";
    case Values::trained:
      return "RUN";
    case Values::checkpoint:
      return "CHECKPOINT";
    case Values::setting:
      return "KEY=VALUE";
    case Values::plugin:
      return "PLUGIN";
    case Values::formula:
      return "FORMULA";
    case Values::plugin_name:
      return "NAME";
    case Values::text:
    case Values::words:
      return option.kind;
  }
  return option.kind;
}

std::string joined_choices(const OptionInfo& option) {
  return fmt::format("{}", fmt::join(option.choices, "|"));
}

/// Returns whether the doc explains each choice.
bool choices_are_told(const OptionInfo& option) {
  return std::ranges::all_of(option.choices, [&](const std::string& choice) {
    const std::size_t at = option.doc.find(choice);
    return at != std::string::npos && option.doc.find(':', at) != std::string::npos;
  });
}

bool choices_are_name(const OptionInfo& option) {
  return joined_choices(option).size() <= kLongestChoices;
}

std::string rows_of(const Declaration& declaration, bool arguments) {
  std::string text;
  for (const OptionInfo& option : declaration.options) {
    if (option.is_argument() != arguments) continue;
    const bool named = option.takes_value() && !arguments;
    text += help_row(option.name + (named ? " " + value_name(option) : ""), full_doc(option), kLeft);
  }
  return text;
}

/// Breaks a command line into lines of 80 columns, with the backslashes that a shell needs.
std::string example_line(const std::string& line) {
  std::string text = wrapped(line, kPageWidth - 2, 6);
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3) text.insert(at, " \\");
  return "  " + text + '\n';
}

std::string section(const std::string& title, const std::string& rows) {
  return rows.empty() ? "" : fmt::format("\n{}:\n{}", title, rows);
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string result;
  std::size_t column = indent;
  bool begins = true;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (word.empty()) continue;
    if (!begins && column + 1 + columns(word) > width) {
      result += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (!begins) {
      result += ' ';
      ++column;
    }
    result += word;
    column += columns(word);
    begins = false;
  }
  return result;
}

std::string help_row(const std::string& name, const std::string& doc, std::size_t left) {
  std::string text = "  " + name;
  if (columns(text) + 2 > left) {
    text += '\n' + std::string(left, ' ');
  } else {
    text += std::string(left - columns(text), ' ');
  }
  return text + wrapped(doc, kPageWidth, left) + '\n';
}

std::string value_name(const OptionInfo& option) {
  if (!option.takes_value()) return "";
  if (option.choices.empty()) return name_of_kind(option);
  return choices_are_name(option) ? joined_choices(option) : upper(option.name);
}

std::string full_doc(const OptionInfo& option) {
  std::string doc = option.doc;
  if (!choices_are_name(option) && !choices_are_told(option))
    doc += fmt::format("; one of {}", fmt::join(option.choices, ", "));
  if (!option.default_value.empty()) doc += fmt::format(" [{}]", option.default_value);
  return doc;
}

std::string usage_of(const Command& command, const Declaration& declaration) {
  std::string text = "rewire " + command.name;
  for (const OptionInfo& option : declaration.options) {
    if (!option.is_argument()) continue;
    const std::string name = option.name + (option.repeatable ? "..." : "");
    text += option.required ? " " + name : " [" + name + "]";
  }
  for (const OptionInfo& option : declaration.options) {
    if (option.required && !option.is_argument())
      text += fmt::format(" {} {}", option.name, value_name(option));
  }
  return text + " [OPTIONS]";
}

std::string help_of(const Command& command, const Declaration& declaration,
                    const std::vector<Command>& further) {
  std::string text = wrapped(fmt::format("rewire {}: {}", command.name, command.doc), kPageWidth) + "\n\n";
  text += wrapped("Usage: " + usage_of(command, declaration), kPageWidth, 4) + '\n';
  text += section("Arguments", rows_of(declaration, true));
  text += section("Options", rows_of(declaration, false));
  if (!further.empty()) text += section("Commands", list_of(further));
  std::string examples;
  for (const Example& example : declaration.examples)
    examples += example_line(example.line) + "      " + wrapped(example.doc, kPageWidth, 6) + '\n';
  return text + section("Examples", examples);
}

std::string list_of(const std::vector<Command>& commands) {
  std::size_t width = 0;
  for (const Command& command : commands) width = std::max(width, command.name.size());
  std::string list;
  for (const Command& command : commands) list += help_row(command.name, command.doc, width + 4);
  return list;
}

std::string help_of_all(const std::vector<Command>& commands) {
  return fmt::format(
      "Rewire {}: a compiler for residual connections\n\nUsage: rewire COMMAND [OPTIONS]\n\nCommands:\n{}"
      "\nMODEL is a recipe (.toml), a module (.rir) or a zoo model (rewire models).\n"
      "rewire COMMAND --help explains a command, rewire help TOPIC a topic. rewire help\n"
      "lists the topics; rewire --version prints the version.\n",
      REWIRE_VERSION, list_of(commands));
}

}  // namespace rewire::cli
