#include "runtime/sweep/cells.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace rewire::runtime {
namespace {

/// Returns the number of characters, as a terminal counts them: bytes that begin one.
std::size_t cell_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// Replaces each text in `rules` by the text that it is written as.
std::string replaced_parts(std::string_view text,
                           const std::vector<std::pair<std::string_view, std::string_view>>& rules) {
  std::string result;
  while (!text.empty()) {
    const auto rule =
        std::ranges::find_if(rules, [&](const auto& one) { return text.starts_with(one.first); });
    const std::size_t size = rule == rules.end() ? 1 : rule->first.size();
    result += rule == rules.end() ? text.substr(0, 1) : rule->second;
    text.remove_prefix(size);
  }
  return result;
}

std::string markdown_cell(const Cell& cell) {
  const std::string text = replaced_parts(cell.text, {{"|", "\\|"}});  // a bar would begin another cell
  return cell.marked ? "**" + text + "**" : text;
}

std::string latex_cell(const Cell& cell) {
  const std::string text = replaced_parts(cell.text, {{"\\", "\\textbackslash{}"},
                                                      {"~", "\\textasciitilde{}"},
                                                      {"^", "\\textasciicircum{}"},
                                                      {"|", "\\textbar{}"},
                                                      {"&", "\\&"},
                                                      {"%", "\\%"},
                                                      {"#", "\\#"},
                                                      {"$", "\\$"},
                                                      {"_", "\\_"},
                                                      {"{", "\\{"},
                                                      {"}", "\\}"},
                                                      {" ± ", " $\\pm$ "},
                                                      {" -", " $-$"},
                                                      {"[-", "[$-$"},
                                                      {"–", "--"}});
  const std::string signed_text =
      text.starts_with('-') && !text.starts_with("--") ? "$-$" + text.substr(1) : text;
  return cell.marked ? "\\textbf{" + signed_text + "}" : signed_text;
}

}  // namespace

std::string aligned_text(const CellTable& table) {
  const auto shown = [](const Cell& cell) { return cell.text + (cell.marked ? " *" : ""); };
  std::vector<std::size_t> widths(table[0].size(), 0);
  for (const std::vector<Cell>& line : table) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], cell_width(shown(line[i])));
  }
  std::string text;
  for (const std::vector<Cell>& line : table) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += shown(line[i]);
      if (i + 1 < line.size()) text.append(widths[i] - cell_width(shown(line[i])) + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

std::string markdown_text(const CellTable& table) {
  std::string text;
  for (std::size_t i = 0; i < table.size(); ++i) {
    text += '|';
    for (const Cell& cell : table[i]) text += " " + markdown_cell(cell) + " |";
    text += '\n';
    if (i > 0) continue;
    for (std::size_t column = 0; column < table[0].size(); ++column) text += "|---";
    text += "|\n";
  }
  return text;
}

std::string latex_text(const CellTable& table) {
  std::string text = "\\begin{tabular}{l" + std::string(table[0].size() - 1, 'r') + "}\n\\hline\n";
  for (std::size_t i = 0; i < table.size(); ++i) {
    for (std::size_t column = 0; column < table[i].size(); ++column)
      text += (column == 0 ? "" : " & ") + latex_cell(table[i][column]);
    text += i == 0 ? " \\\\\n\\hline\n" : " \\\\\n";
  }
  return text + "\\hline\n\\end{tabular}\n";
}

}  // namespace rewire::runtime
