// Makes readable C++ identifiers from the names of the IR.
#pragma once

#include <string>
#include <vector>

#include "codegen/tile/tile.h"

namespace rewire::codegen::cuda {

/// Returns a distinct identifier for each argument. The beginning that all dotted names share (`blocks.3.`)
/// is left out; characters other than letters and digits become '_'.
std::vector<std::string> argument_names(const tile::Kernel& kernel);
/// Returns an identifier for each value: the word of the node that defines it and its number in print()'s
/// text ("mul5" is %5); a load takes its argument's name. All are distinct, from the arguments too.
std::vector<std::string> value_names(const tile::Kernel& kernel, const std::vector<std::string>& arguments);

}  // namespace rewire::codegen::cuda
