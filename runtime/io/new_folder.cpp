#include "runtime/io/new_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/io/files.h"

namespace rewire::runtime {

namespace fs = std::filesystem;

NewFolder::NewFolder(std::string path) : given_(std::move(path)) {
  path_ = fs::absolute(given_).lexically_normal();
  if (!path_.has_filename()) path_ = path_.parent_path();  // without a slash at its end
  std::error_code error;
  if (fs::exists(path_, error)) {
    const bool empty = fs::is_directory(path_, error) && fs::is_empty(path_, error);
    if (error) user_error("{}: {}", visible(given_), error.message());
    if (!empty)
      user_error("{}: it exists and is not an empty folder: choose another --output", visible(given_));
  }
  // An interrupted run leaves no folder that looks complete. If two run at once, one fails.
  make_folder(path_.parent_path().string());
  std::string partial = (path_.parent_path() / fmt::format(".{}.XXXXXX", path_.filename().string())).string();
  if (::mkdtemp(partial.data()) == nullptr)
    user_error("cannot make a folder next to {}: {}", visible(given_),
               std::generic_category().message(errno));
  partial_ = partial;
  fs::permissions(partial_, fs::perms(0755), error);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!partial_.empty()) fs::remove_all(partial_, ignored);
}

void NewFolder::commit() {
  if (::rename(partial_.c_str(), path_.c_str()) != 0)
    user_error("{}: {}: choose another --output", visible(given_), std::generic_category().message(errno));
  partial_.clear();
  sync_folder(path_.parent_path().string());
}

}  // namespace rewire::runtime
