// Where a file is, who named it, and the one way to open it. Files that others may have written are opened as plain
// files, without waiting for the other end of a pipe. Below a folder that others may have made, no link is followed: each
// part of the path is opened in the folder before it, so that nothing can be exchanged in between.
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
  /// Another file (a recipe, a list) or we named it: links are followed, pipes and devices refused.
  FilePlace(std::string path) : path_(std::move(path)) {}  // NOLINT(google-explicit-constructor)
  FilePlace(const char* path) : path_(path) {}             // NOLINT(google-explicit-constructor)
  /// The user named it on the command line, and may name a pipe or a device.
  static FilePlace of_user(std::string path);
  /// In a folder whose content others may have made, such as a run's. The folder may be a link; no part of `name`
  /// ("checkpoints/last") may be one.
  static FilePlace below(std::string folder, std::string_view name);

  /// For messages.
  const std::string& path() const { return path_; }
  bool is_below() const { return folder_bytes_ > 0; }
  bool is_of_user() const { return is_of_user_; }
  /// The folder of below(), and what follows it.
  std::string folder() const { return path_.substr(0, folder_bytes_); }
  std::string_view name() const { return std::string_view(path_).substr(folder_bytes_ + 1); }

 private:
  std::string path_;
  std::size_t folder_bytes_ = 0;  // of path_; 0: links are followed
  bool is_of_user_ = false;
};

/// A folder that is open, and a name in it.
struct NameInFolder {
  codegen::Descriptor folder;
  std::string name;
};
/// The folder that the file is in; an empty descriptor and errno where it cannot be opened. UserError where a link leads
/// to it below a folder of others, or "..".
NameInFolder folder_of(const FilePlace& place);

/// As open(2); an empty descriptor and errno where that fails. O_CLOEXEC is added, and O_NONBLOCK for all but what the
/// user named. UserError on a link below a folder of others.
codegen::Descriptor open_place(const FilePlace& place, int flags, mode_t mode = 0);
/// Of the file itself, links followed where that is so of its place; nothing where there is none. UserError where that
/// cannot be said, and on a link below a folder of others.
std::optional<struct stat> status_of(const FilePlace& place);
bool is_file(const FilePlace& place);    // a regular one; errors as of status_of()
bool is_folder(const FilePlace& place);  // errors as of status_of()
/// The names in a folder, sorted; none where there is no such folder. UserError where it cannot be read.
std::vector<std::string> names_in(const FilePlace& folder);

/// A file, or a folder with all in it; a link goes itself. What cannot be removed stays. UserError on a link on the way.
void remove_tree(const FilePlace& place);
/// The same of a file or a link alone: a folder stays.
void remove_file(const FilePlace& place);
/// Of two places below one folder. UserError with the system's reason.
void rename_at(const FilePlace& from, const FilePlace& to);
/// UserError with the system's reason.
void set_mode(const FilePlace& place, mode_t mode);

}  // namespace rewire::runtime
