// A kernel's code as text, and which line is of which value of its tile IR.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rewire::codegen {

struct TracedText {
  std::string text;
  /// By line: the id of the tile value that it loads, computes or stores. -1: of none alone, as jumps are, in a function that
  /// several values call, or moved out of a loop, where LLVM forgets it. In assembly what counts a loop's trips goes with what stands
  /// before it.
  std::vector<std::int32_t> values;
};

}  // namespace rewire::codegen
