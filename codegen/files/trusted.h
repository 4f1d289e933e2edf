// Whose files this process takes code from. A file is trusted where only this user and root can have written
// it, and only they can put another one in its place: owner and mode of the file are judged, and of every
// folder and symbolic link on the way to it, as OpenSSH's StrictModes does. What was judged is what is
// opened: the way is walked by descriptors, so that nothing can be exchanged in between.
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
/// way and the end itself must belong to this user or root, and be writable by the owner alone. A sticky
/// folder such as /tmp may be on the way, for nobody can take from it what belongs to others; but not as the
/// folder of a file, beside which anybody could lay a library that the file asks for. UserError: "'PLACE' is
/// writable by everybody, so WHAT cannot be trusted: chmod o-w 'PLACE'", or "cannot open 'PATH': " and the
/// system's reason.
TrustedFile open_trusted(const std::string& path, int flags, std::string_view what);

/// Why an entry with this status, in a folder that is trusted, is not; "" if it is.
std::string distrust(const struct stat& status);

}  // namespace rewire::codegen
