// Rows that need not be computed: a printer may branch past the rest of the body where its conditions are
// false.
#pragma once

#include <vector>

#include "codegen/tile/tile.h"

namespace rewire::codegen::tile {

/// The scalar equalities of which a row meets one, or changes nothing: all that the body does is to add
/// select(equality, x, 0) to values that are carried from 0. Empty: there are none. Equalities, since few
/// rows meet one: of what most rows meet, a branch would cost more than it spares.
std::vector<TileValue> row_conditions(const Kernel& kernel);

}  // namespace rewire::codegen::tile
