// Rows that need not be computed: a printer may branch past the rest of the body where a condition is false.
#pragma once

#include "codegen/tile/tile.h"

namespace rewire::codegen::tile {

/// The scalar equality without which a row changes nothing: all that the body does is to add select(equality,
/// x, 0) to values that are carried from 0. Invalid: there is none. An equality, since few rows meet one: of
/// what most rows meet, a branch would cost more than it spares.
TileValue row_condition(const Kernel& kernel);

}  // namespace rewire::codegen::tile
