// Columns of text, then columns of numbers, each as wide as its widest cell.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rewire::cli {

class Table {
 public:
  /// `names`: the count of text columns, aligned left; numbers are aligned right.
  explicit Table(std::size_t names) : names_(names) {}
  void add(std::vector<std::string> line);
  void print() const;

 private:
  std::size_t names_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> lines_;
};

}  // namespace rewire::cli
