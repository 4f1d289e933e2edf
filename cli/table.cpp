#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/streams.h"

namespace rewire::cli {

void Table::add(std::vector<std::string> line) {
  widths_.resize(std::max(widths_.size(), line.size()));
  for (std::size_t i = 0; i < line.size(); ++i) widths_[i] = std::max(widths_[i], line[i].size());
  lines_.push_back(std::move(line));
}

void Table::print() const {
  for (const std::vector<std::string>& line : lines_) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += i < names_ ? fmt::format("{:<{}}  ", line[i], widths_[i])
                         : fmt::format("{:>{}}  ", line[i], widths_[i]);
    }
    text.resize(text.find_last_not_of(' ') + 1);
    cli::print("{}\n", text);
  }
}

}  // namespace rewire::cli
