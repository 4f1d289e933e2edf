// Finds rows that need not be computed: a printer may branch past the rest of the body if its conditions are
// false.
#pragma once

#include <vector>

#include "codegen/tile/tile.h"

namespace rewire::codegen::tile {

/// Returns scalar equalities. A row that meets none of them changes nothing: all that the body does is to
/// add select(equality, x, 0) to values carried from 0. Empty: there are none. Only equalities count, since
/// few rows meet one; for a condition that most rows meet, a branch costs more than it saves.
std::vector<TileValue> row_conditions(const Kernel& kernel);

}  // namespace rewire::codegen::tile
