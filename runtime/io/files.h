// Files that are never half-written, and reads that say what went wrong.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

/// The whole file. UserError: "cannot read FILE: No such file or directory".
std::vector<std::byte> read_file(const std::string& path);
/// Temporary name in the same folder, write, fsync, rename, fsync of the folder. RuntimeFailure naming the
/// file and the system's reason; the temporary file is removed and an old file survives untouched.
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::string& path, std::string_view text);

}  // namespace rewire::runtime
