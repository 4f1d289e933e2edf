// The code of others that this user has agreed to run: SHA-256 hashes in a text file of the user's own,
// $XDG_DATA_HOME/rewire/trusted (or ~/.local/share/rewire/trusted), a hash a line, then where it came from as
// a comment. Who drops a line, or the file, is asked again.
#pragma once

#include <string>
#include <string_view>

namespace rewire::runtime {

/// Where the list is; "" where neither variable names a folder.
std::string trust_list_path();

/// Whether the user has agreed to run what has this hash (64 hexadecimal digits). False, with a warning,
/// where the list is one that another user could have written.
bool is_trusted(std::string_view sha256);

/// Adds the hash, if it is not there. Where that cannot be, the log says why, and nothing is remembered.
void remember_trusted(std::string_view sha256, std::string_view path);

}  // namespace rewire::runtime
