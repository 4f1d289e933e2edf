// Mapped files, and folders that appear complete or not at all.
#include "runtime/io/mapped_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/io/new_folder.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using test::message_of;
using test::TemporaryFolder;

TEST_CASE("A mapped file is its bytes, and says when it has changed") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x");
  write_file_atomically(path, std::string_view("some bytes"));
  const MappedFile file(path);
  REQUIRE(file.bytes().size() == 10);
  CHECK(std::memcmp(file.bytes().data(), "some bytes", 10) == 0);
  CHECK(file.is_unchanged());
  std::filesystem::resize_file(path, 4);
  CHECK_FALSE(file.is_unchanged());
  write_file_atomically(folder.file("empty"), std::string_view());
  CHECK(MappedFile(folder.file("empty")).bytes().empty());
  CHECK(message_of<UserError>([&] { MappedFile(folder.file("none")); }) ==
        "cannot read " + folder.file("none") + ": No such file or directory");
  CHECK(message_of<UserError>([&] { MappedFile(folder.path().string()); }) ==
        folder.path().string() + ": it is not a regular file");
}

TEST_CASE("A new folder has its name when it is complete, and leaves nothing before") {
  const TemporaryFolder folder;
  for (const std::string name : {"out", "out/"}) {
    {
      const NewFolder output(folder.file(name));
      write_file_atomically(output.partial("x"), std::string_view("text"));
      CHECK_FALSE(std::filesystem::exists(folder.file("out")));
      CHECK(folder.entries() == 1);
    }
    CHECK(folder.entries() == 0);
  }
  NewFolder output(folder.file("out"));
  write_file_atomically(output.partial("x"), std::string_view("text"));
  output.commit();
  CHECK(output.output("x") == folder.file("out/x"));
  CHECK(read_file(folder.file("out/x")).size() == 4);
  CHECK(folder.entries() == 1);
  CHECK(message_of<UserError>([&] { NewFolder(folder.file("out")); }) ==
        folder.file("out") + ": it exists and is not an empty folder: choose another --output");
  std::filesystem::create_directories(folder.file("empty"));
  NewFolder(folder.file("empty")).commit();
  CHECK(std::filesystem::is_empty(folder.file("empty")));
}

}  // namespace
}  // namespace rewire::runtime
