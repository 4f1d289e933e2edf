// What is done to the folder of a case before its command runs: files put, cut, flipped, replaced by what is
// no file. Names are relative to that folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace rewire::test {

using Step = std::function<void(const std::string& folder)>;

std::string read_bytes(const std::string& path);
void write_bytes(const std::string& path, std::string_view bytes);

/// A file with these bytes; the folders above it are made.
Step put(std::string name, std::string bytes);
/// A file or folder from elsewhere.
Step copy(std::string from, std::string name);
Step remove(std::string name);
Step cut(std::string name, std::size_t bytes);           // to its first so many
Step extend(std::string name, std::string more);         // by these bytes at its end
Step flip(std::string name, std::size_t byte, int bit);  // one bit
Step zero(std::string name, std::size_t from, std::size_t bytes);
/// The first `from` in it becomes `to`; it must be there.
Step replace(std::string name, std::string from, std::string to);

/// What stands there goes; in its place comes what is no plain file, or one of a terabyte.
Step become_folder(std::string name);
Step become_fifo(std::string name);
Step become_link(std::string name, std::string target);
Step become_huge(std::string name);
/// What stands there moves to `to`, and a link in its place leads to it; to a folder where nothing stood.
Step lead_away(std::string name, std::string to);
Step forbid(std::string name, unsigned mode = 0);  // chmod

/// A number as the little- or big-endian bytes of a binary file.
std::string little_endian(std::uint64_t value, int bytes);
std::string big_endian(std::uint64_t value, int bytes);

}  // namespace rewire::test
