// Judges a plugin file by its bytes before the dynamic linker sees it. Opening a library runs its
// constructors, a truncated one kills the process with SIGBUS, and one built with a sanitizer ends it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rewire::runtime {

struct ElfFacts {
  bool exports_symbol = false;  // the one asked for
  std::uint32_t sanitizer = 0;  // REWIRE_SANITIZER_*, by the runtime that it calls
};

/// Throws UserError, without the file's name, if `bytes` is no complete 64-bit shared library.
ElfFacts read_elf(std::span<const std::byte> bytes, std::string_view symbol);

}  // namespace rewire::runtime
