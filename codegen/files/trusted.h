// Decides which files this process takes code from. A file is trusted if only this user and root can have
// written it, and only they can replace it. Owner and mode are checked for the file and for every folder and
// symbolic link on the path to it, as OpenSSH's StrictModes does. The path is walked by descriptors, so the
// file that is opened is the one that was checked.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "codegen/files/descriptor.h"

namespace rewire::codegen {

struct TrustedFile {
  Descriptor file;
  std::string path;  // absolute, links resolved
};

/// Opens a file or a folder with `flags` (O_NOFOLLOW is added: links are followed here). Everything on the
/// path, and its end, must belong to this user or root and be writable by the owner alone. A sticky folder
/// such as /tmp may be on the path, since nobody can remove other users' entries from it. It may not be the
/// folder of a file, since anybody could add a library that the file loads. Throws UserError: "'PLACE' is
/// writable by everybody, so WHAT cannot be trusted: chmod o-w 'PLACE'", or "cannot open 'PATH': " and the
/// system's reason.
TrustedFile open_trusted(const std::string& path, int flags, std::string_view what);

/// Returns why an entry with this status, in a trusted folder, is not trusted; "" if it is.
std::string distrust(const struct stat& status);

}  // namespace rewire::codegen
