// An objective for tests of networks whose own objective needs labels that no random input has.
#pragma once

#include "ir/registry.h"

namespace rewire::parity {

/// Returns the objective `mean_squares`, which is listed from the first call on: the sum over forward's
/// results of their mean squares. Its inputs are forward's arguments. It has no evaluation.
ir::Selection mean_squares();

}  // namespace rewire::parity
