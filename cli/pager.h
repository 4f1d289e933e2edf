// Long output on a terminal, a screen at a time.
#pragma once

#include <functional>

namespace rewire::cli {

/// What `print` writes to stdout; where that is a terminal and `wanted`, through $REWIRE_PAGER, else $PAGER, else less
/// where there is one, which shows what fits on a screen as it is. A pager that is left early ends `print`, and no more; where it cannot be run,
/// `print` is called again without.
void page(bool wanted, const std::function<void()>& print);

/// What `print_roff` writes to stdout, a manual page's source; where that is a terminal through man(1), which shows it, or
/// where there is no man what `print_plain` writes, a screen at a time.
void page_through_man(const std::function<void()>& print_roff, const std::function<void()>& print_plain);

}  // namespace rewire::cli
