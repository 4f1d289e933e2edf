// Long output on a terminal, a screen at a time.
#pragma once

#include <functional>

namespace rewire::cli {

/// What `print` writes to stdout; where that is a terminal and `wanted`, through $REWIRE_PAGER, else $PAGER, else less
/// where there is one, which shows what fits on a screen as it is. A pager that is left early ends `print`, and no more; where it cannot be run,
/// `print` is called again without.
void page(bool wanted, const std::function<void()>& print);

}  // namespace rewire::cli
