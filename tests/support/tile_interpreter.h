// The reference for tests of the tile printers: runs a kernel node by node in double precision, one instance
// and one row after the other.
#pragma once

#include <vector>

#include "codegen/tile/tile.h"

namespace rewire::test {

/// The memory of one argument, a double per element; float storage is rounded to its dtype when it is
/// written.
using TileMemory = std::vector<double>;

/// Runs every instance. Throws InternalError if an access leaves its argument's memory.
void interpret(const codegen::tile::Kernel& kernel, std::vector<TileMemory>& arguments);

}  // namespace rewire::test
