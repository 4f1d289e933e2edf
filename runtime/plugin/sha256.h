// SHA-256 (FIPS 180-4), by LLVM, to identify the exact library that a run was made with.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace rewire::runtime {

/// Returns 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace rewire::runtime
