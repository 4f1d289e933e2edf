// The code of others that this user has agreed to run: SHA-256 hashes in the user's own text file,
// $XDG_DATA_HOME/rewire/trusted (or ~/.local/share/rewire/trusted). Each line has a hash, then its origin as
// a comment. After a line or the file is deleted, Rewire asks again.
#pragma once

#include <string>
#include <string_view>

namespace rewire::runtime {

/// Returns the path of the list; "" if neither variable names a folder.
std::string trust_list_path();

/// Returns true if the user has agreed to run the file with this hash (64 hexadecimal digits). Returns
/// false, with a warning, if another user could have written the list.
bool is_trusted(std::string_view sha256);

/// Adds the hash if it is missing. On failure the log says why, and nothing is remembered.
void remember_trusted(std::string_view sha256, std::string_view path);

}  // namespace rewire::runtime
