#include "cli/man.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/exit_codes.h"
#include "cli/help.h"
#include "cli/topics.h"

namespace rewire::cli {
namespace {

/// Escapes text so that roff prints it unchanged: hyphens can be copied, and no line is a request.
std::string roff(std::string_view text) {
  std::string result;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) result += "\\&";
    begins = c == '\n';
    switch (c) {
      case '\\':
        result += "\\e";
        break;
      case '-':
        result += "\\-";
        break;
      case '\'':
        result += "\\(aq";
        break;
      case '`':
        result += "\\(ga";
        break;
      case '^':
        result += "\\(ha";
        break;
      case '~':
        result += "\\(ti";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string bold(std::string_view text) {
  return "\\fB" + roff(text) + "\\fR";
}

std::string italic(std::string_view text) {
  return "\\fI" + roff(text) + "\\fR";
}

std::string header(const std::string& name, const std::string& doc) {
  std::string upper;
  for (const char c : name) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return fmt::format(".TH {} 1 \"\" \"Rewire {}\" \"Rewire\"\n.nh\n.ad l\n.SH NAME\n{} \\- {}\n", roff(upper),
                     REWIRE_VERSION, roff(name), roff(doc));
}

std::string tagged(const std::string& tag, std::string_view text) {
  return ".TP\n" + tag + '\n' + roff(text) + '\n';
}

/// Returns a block whose lines roff keeps.
std::string example_block(std::string_view text) {
  return ".EX\n" + roff(text) + (text.ends_with('\n') ? ".EE\n" : "\n.EE\n");
}

std::string rows(const Declaration& declaration, bool arguments) {
  std::string text;
  for (const OptionInfo& option : declaration.options) {
    if (option.is_argument() != arguments) continue;
    std::string tag = arguments ? italic(option.name) : bold(option.name);
    if (option.takes_value() && !arguments) tag += ' ' + italic(value_name(option));
    text += tagged(tag, full_doc(option));
  }
  return text;
}

/// Returns the page of a topic without its first line, the title.
std::string body_of(const std::string& topic) {
  const std::string page = topic_page(topic);
  return page.substr(page.find_first_not_of('\n', page.find('\n')));
}

}  // namespace

std::string man_name(const Command& command) {
  std::string name = "rewire-" + command.name;
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string man_page(const Command& command, const Declaration& declaration) {
  std::string page = header(man_name(command), command.doc);
  page += ".SH SYNOPSIS\n" + roff(usage_of(command, declaration)) + '\n';
  if (const std::string arguments = rows(declaration, true); !arguments.empty())
    page += ".SH ARGUMENTS\n" + arguments;
  page += ".SH OPTIONS\n" + rows(declaration, false) + ".SH EXAMPLES\n";
  for (const Example& example : declaration.examples) page += tagged(bold(example.line), example.doc);
  return page + ".SH SEE ALSO\n.BR rewire (1)\n";
}

std::string man_page_of_all(const std::vector<Command>& commands) {
  std::string page = header("rewire", "a compiler for residual connections");
  page += ".SH SYNOPSIS\n" + roff("rewire COMMAND [OPTIONS]") + '\n';
  page +=
      ".SH DESCRIPTION\n"
      "A network is a small IR. A plugin rewrites it where a block's branch joins the residual stream. "
      "Gradients,\n"
      "optimizer and fused kernels follow from the rewritten IR, for the CPU and for GPUs.\n.PP\n" +
      bold("rewire COMMAND --help") + " explains a command, " + bold("rewire help TOPIC") + " a topic, and " +
      bold("rewire help KEY") + " a key of a recipe.\n.SH COMMANDS\n";
  for (const Command& command : commands) page += tagged(bold(man_name(command)) + "(1)", command.doc);
  page += ".SH TOPICS\n";
  for (const Topic& topic : topics()) page += tagged(bold("rewire help " + topic.name), topic.doc);
  page += ".SH EXIT STATUS\n";
  for (const ExitCode& row : exit_codes()) page += tagged(bold(row.code), row.meaning);
  return page + ".SH ENVIRONMENT\n" + example_block(body_of("environment"));
}

}  // namespace rewire::cli
