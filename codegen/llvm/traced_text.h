// A kernel's code as text, and which line is of which value of its tile IR.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rewire::codegen {

struct TracedText {
  std::string text;
  /// By line: the id of the tile value that it loads, computes or stores. -1: of none alone, as loops and addresses are, or
  /// moved out of a loop, where LLVM forgets it.
  std::vector<std::int32_t> values;
};

}  // namespace rewire::codegen
