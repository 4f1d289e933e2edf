// Merges neighbouring axes that every access walks as one: rows (b, n) of dense tensors become one row axis.
// A short last lane axis grows into a long vector, with rows too if the kernel adds up nothing.
#pragma once

#include "codegen/tile/tile.h"

namespace rewire::codegen::tile {

void merge_axes(Kernel& kernel);

}  // namespace rewire::codegen::tile
