// A kernel's code as text, and the value of its tile IR that each line belongs to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rewire::codegen {

struct TracedText {
  std::string text;
  /// By line: the id of the tile value that it loads, computes or stores. -1: no single value, as for jumps,
  /// for functions that several values call, and for code moved out of a loop, where LLVM drops the
  /// location. In assembly, code that counts a loop's trips belongs to the value before it.
  std::vector<std::int32_t> values;
};

}  // namespace rewire::codegen
