// A table of text with a head, for people: aligned for a terminal, as Markdown, as LaTeX.
#pragma once

#include <string>
#include <vector>

namespace rewire::runtime {

struct Cell {
  std::string text;
  bool marked = false;  // a star in a terminal, else bold
};
using CellTable = std::vector<std::vector<Cell>>;

std::string aligned_text(const CellTable& table);
std::string markdown_text(const CellTable& table);
/// Returns a tabular environment that needs no package.
std::string latex_text(const CellTable& table);

}  // namespace rewire::runtime
