// For readers of files and folders: a folder of this process in memory, removed at its end.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz_support.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {

class FuzzFolder {
 public:
  std::string file(const std::string& name) const { return folder_.file(name); }
  void write(const std::string& name, std::string_view bytes) const {
    const std::string path = file(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }

 private:
  const TemporaryFolder folder_;
};

/// One of the process.
inline const FuzzFolder& fuzz_folder() {
  // In memory where there is a place for that.
  static const int set = std::filesystem::exists("/dev/shm") ? ::setenv("TMPDIR", "/dev/shm", 0) : 0;
  static_cast<void>(set);
  static const FuzzFolder instance;
  return instance;
}

/// Takes the first byte away: true where it is odd. So an input chooses between two ways to be read.
inline bool takes_other_way(std::string_view& text) {
  const bool odd = !text.empty() && (text.front() & 1) != 0;
  text.remove_prefix(text.empty() ? 0 : 1);
  return odd;
}

/// What stands before the next `end`, which goes too.
inline std::string take_until(std::string_view& text, char end) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return std::string(part);
}

}  // namespace rewire::test
