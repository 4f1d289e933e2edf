// The folder of compiled kernels: bounded at the start of a run, never under somebody who uses it.
#include <chrono>
#include <fstream>

#include "tests/cuda_shim/compile.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::cuda_shim {
namespace {

namespace fs = std::filesystem;

/// A file of a thousand bytes that was used so many hours ago.
void put_file(const fs::path& path, int hours) {
  std::ofstream(path) << std::string(1000, 'x');
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
}

TEST_CASE("what was used longest ago is dropped until the rest fits") {
  const test::TemporaryFolder folder;
  put_file(folder.path() / "new.so", 1);
  put_file(folder.path() / "oldest.so", 50);
  put_file(folder.path() / "old.so", 30);
  put_file(folder.path() / "newest.so", 0);
  {
    const FolderUse use(folder.path(), 4000);
  }
  CHECK(folder.entries() == 4 + 1);  // and the lock
  {
    const FolderUse use(folder.path(), 2999);
  }
  CHECK(fs::exists(folder.path() / "new.so"));
  CHECK(fs::exists(folder.path() / "newest.so"));
  CHECK(folder.entries() == 2 + 1);
  {
    const FolderUse use(folder.path(), 0);
  }
  CHECK(folder.entries() == 1);
}

TEST_CASE("nothing is dropped while somebody else uses the folder") {
  const test::TemporaryFolder folder;
  put_file(folder.path() / "kernels.so", 100);
  {
    const FolderUse other(folder.path(), 5000);
    const FolderUse use(folder.path(), 0);
    CHECK(fs::exists(folder.path() / "kernels.so"));
  }
  const FolderUse alone(folder.path(), 0);
  CHECK_FALSE(fs::exists(folder.path() / "kernels.so"));
}

TEST_CASE("a compiled text counts as used when it is taken again") {
  const test::TemporaryFolder folder;
  const KernelText kernel{"nothing", "extern \"C\" __global__ void nothing(float* x) {}\n"};
  const auto compile = [&] {
    HostCompiler compiler(folder.path(), "", {1, false});
    compiler.add({&kernel, 1});
    return compiler.report().compiled_files;
  };
  const auto age = [&] {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder.path()))
      fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(9));
  };
  CHECK(compile() == 1);
  age();
  CHECK(compile() == 0);
  const auto recent = fs::file_time_type::clock::now() - std::chrono::hours(1);
  int used = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path()))
    used += entry.path().filename() != "lock" && entry.last_write_time() > recent ? 1 : 0;
  CHECK(used == 2);  // the object and its source
}

}  // namespace
}  // namespace rewire::cuda_shim
