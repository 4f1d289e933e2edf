// The loss of a run so far as one line of text: a curve of a few columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rewire::cli {

/// Whether the terminal's locale is of UTF-8, by LC_ALL, LC_CTYPE and LANG.
bool locale_is_utf8();

/// Holds means over equal numbers of steps, however many there are.
class LossCurve {
 public:
  /// A loss that is not finite is left out.
  void add(double loss);
  /// At most `columns` characters, each the mean of as many steps but the last: high is the largest loss of them, low the
  /// smallest. Blocks of an eighth to a whole one in UTF-8, else ASCII. "" before there are two columns' worth.
  std::string text(std::size_t columns, bool utf8) const;

 private:
  struct Bin {
    double sum = 0;
    std::int64_t steps = 0;
  };
  std::vector<Bin> bins_;
  std::int64_t steps_of_bin_ = 1;
};

}  // namespace rewire::cli
