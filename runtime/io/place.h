// A FilePlace says where a file is and who named it, and gives the one way to open it. Files that others may
// have written are opened as regular files, without waiting for the other end of a pipe. Below an untrusted
// folder, whose contents others may have made, no link is followed: each part of the path is opened in the
// folder before it, so nobody can exchange one in between.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/files/descriptor.h"

namespace rewire::runtime {

class FilePlace {
 public:
  /// A file named by another file (a recipe, a list) or by Rewire: links are followed, pipes and devices
  /// refused.
  FilePlace(std::string path) : path_(std::move(path)) {}  // NOLINT(google-explicit-constructor)
  FilePlace(const char* path) : path_(path) {}             // NOLINT(google-explicit-constructor)
  /// A file named on the command line, which may be a pipe or a device.
  static FilePlace of_user(std::string path);
  /// A file in an untrusted folder, such as a run's. The folder may be a link; no part of `name`
  /// ("checkpoints/last") may.
  static FilePlace below(std::string folder, std::string_view name);

  /// The path, for messages.
  const std::string& path() const { return path_; }
  bool is_below() const { return folder_bytes_ > 0; }
  bool is_of_user() const { return is_of_user_; }
  /// The folder given to below(), and the rest of the path.
  std::string folder() const { return path_.substr(0, folder_bytes_); }
  std::string_view name() const { return std::string_view(path_).substr(folder_bytes_ + 1); }

 private:
  std::string path_;
  std::size_t folder_bytes_ = 0;  // of path_; 0: links are followed
  bool is_of_user_ = false;
};

/// An open folder and a name in it.
struct NameInFolder {
  codegen::Descriptor folder;
  std::string name;
};
/// Opens the folder of the file; an empty descriptor and errno on failure. Throws UserError for a link on
/// the way below an untrusted folder, and for "..".
NameInFolder folder_of(const FilePlace& place);

/// Opens a file like open(2); an empty descriptor and errno on failure. Adds O_CLOEXEC, and O_NONBLOCK
/// unless the user named it. Throws UserError for a link below an untrusted folder.
codegen::Descriptor open_place(const FilePlace& place, int flags, mode_t mode = 0);
/// Returns the status of the file, following links if the place allows it; nothing if there is none. Throws
/// UserError if that is unknown, and for a link below an untrusted folder.
std::optional<struct stat> status_of(const FilePlace& place);
bool is_file(const FilePlace& place);    // a regular file; errors as for status_of()
bool is_folder(const FilePlace& place);  // errors as for status_of()
/// Returns the names in a folder, sorted; none without such a folder. Throws UserError if it cannot be read.
std::vector<std::string> names_in(const FilePlace& folder);

/// Removes a file, a link itself, or a folder with its contents. Keeps what cannot be removed. Throws
/// UserError for a link on the way.
void remove_tree(const FilePlace& place);
/// Removes a file or link like remove_tree(), but no folder.
void remove_file(const FilePlace& place);
/// Renames a file within one untrusted folder. Throws UserError with the system's reason.
void rename_at(const FilePlace& from, const FilePlace& to);
/// Sets the mode of a file. Throws UserError with the system's reason.
void set_mode(const FilePlace& place, mode_t mode);

}  // namespace rewire::runtime
