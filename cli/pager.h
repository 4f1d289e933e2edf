// Shows long output on a terminal one screen at a time.
#pragma once

#include <functional>

namespace rewire::cli {

/// Writes the output of `print` to stdout. If that is a terminal and `wanted` is set, it goes through
/// $REWIRE_PAGER, else $PAGER, else less if it is installed, which prints output that fits on a screen
/// directly. Leaving a pager early ends `print` and nothing else. If the pager cannot run, `print` is called
/// again without it.
void page(bool wanted, const std::function<void()>& print);

/// Writes the output of `print_roff`, a manual page's source, to stdout. On a terminal man(1) shows it;
/// without man the output of `print_plain` is shown one screen at a time.
void page_through_man(const std::function<void()>& print_roff, const std::function<void()>& print_plain);

}  // namespace rewire::cli
