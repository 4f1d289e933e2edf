// Neighbouring axes that every access walks as one become one axis: rows (b, n) of dense tensors are one row
// axis, and a short last lane axis grows into a long vector, by rows too where a kernel adds up nothing.
#pragma once

#include "codegen/tile/tile.h"

namespace rewire::codegen::tile {

void merge_axes(Kernel& kernel);

}  // namespace rewire::codegen::tile
