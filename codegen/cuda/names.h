// Names for people: C++ identifiers from the names of the IR.
#pragma once

#include <string>
#include <vector>

#include "codegen/tile/tile.h"

namespace rewire::codegen::cuda {

/// One identifier for each argument, distinct: what all dotted names begin with (`blocks.3.`) is left out,
/// other signs than letters and digits become '_'.
std::vector<std::string> argument_names(const tile::Kernel& kernel);
/// One identifier for each value: the word of the node that defines it and its number in print()'s text
/// ("mul5" is %5); a load takes the name of its argument. All distinct, from the arguments too.
std::vector<std::string> value_names(const tile::Kernel& kernel, const std::vector<std::string>& arguments);

}  // namespace rewire::codegen::cuda
