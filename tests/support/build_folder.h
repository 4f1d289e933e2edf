// Finds the build folder of the running program. It is found at run time, so that builds of the same code
// have the same programs (scripts/test.sh bare runs those that differ from the release's).
#pragma once

#include <filesystem>

namespace rewire::testing {

/// Returns the build whose folder bin has the program.
inline std::filesystem::path build_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
}

}  // namespace rewire::testing
