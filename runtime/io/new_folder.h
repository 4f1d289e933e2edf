// A folder that appears under its name complete, or not at all: files are written into a hidden folder beside it, which
// is renamed last.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace rewire::runtime {

class NewFolder {
 public:
  /// Throws UserError if `path` exists and is not an empty folder, or if no folder can be made there.
  explicit NewFolder(std::string path);
  /// Removes what was written, unless it was committed.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// Returns the path of a file now, for writing it, and the path that it will have.
  std::string partial(std::string_view name) const { return (partial_ / name).string(); }
  std::string output(std::string_view name) const { return (std::filesystem::path(given_) / name).string(); }
  void commit();

 private:
  std::string given_;
  std::filesystem::path path_, partial_;  // partial_: "" once it is committed
};

}  // namespace rewire::runtime
