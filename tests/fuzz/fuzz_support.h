// What every fuzzer of a reader asserts: the bytes are read, or refused by a UserError of one line. Any other
// exception ends the program, which libFuzzer reports with the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ir/error.h"

namespace rewire::test {

/// Stops where a reader broke a promise.
inline void require(bool promise) {
  if (!promise) std::abort();
}

/// True if `read` accepted its input.
template <class Read>
bool accepted(Read&& read) {
  try {
    read();
    return true;
  } catch (const UserError& error) {
    require(std::string_view(error.what()).find('\n') == std::string_view::npos);
    return false;
  }
}

}  // namespace rewire::test
