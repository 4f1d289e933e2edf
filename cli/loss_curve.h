// The loss of a run so far as a one-line curve of a few columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rewire::cli {

/// Returns whether the terminal's locale uses UTF-8, by LC_ALL, LC_CTYPE and LANG.
bool locale_is_utf8();

/// Holds means over equal numbers of steps, for any number of steps.
class LossCurve {
 public:
  /// Adds a step's loss; ignores one that is not finite.
  void add(double loss);
  /// Returns at most `columns` characters, each a mean of equally many steps, except the last. The largest
  /// loss is high, the smallest low. Uses blocks of an eighth to a whole one in UTF-8, else ASCII. Returns
  /// "" if there are fewer than two columns.
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
