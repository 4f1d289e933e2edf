// Opening, making, listing and removing files below a folder whose content others may have made; and pipes.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "runtime/io/appended_file.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"
#include "runtime/io/npy.h"
#include "runtime/io/place.h"
#include "runtime/io/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::TemporaryFolder;

/// run/ with a link to a file, and one to a folder, of the user's: mine/note and mine/deep/note.
class FolderWithLinks {
 public:
  FolderWithLinks() {
    make_folder(folder_.file("mine/deep"));
    write_file_atomically(folder_.file("mine/note"), std::string_view("mine"));
    write_file_atomically(folder_.file("mine/deep/note"), std::string_view("mine"));
    make_folder(folder_.file("run/part"));
    fs::create_symlink(folder_.file("mine/note"), folder_.file("run/note"));
    fs::create_symlink(folder_.file("mine/deep"), folder_.file("run/deep"));
    fs::create_symlink(folder_.file("mine/note"), folder_.file("run/part/note"));
    fs::create_symlink(folder_.file("nowhere"), folder_.file("run/lost"));
    fs::create_symlink("run", folder_.file("latest"));
  }
  FilePlace place(const std::string& name) const { return FilePlace::below(folder_.file("run"), name); }
  std::string refusal(const std::string& name) const {
    const std::string run = folder_.file("run");
    return run + "/" + name + " is a link: links below " + run +
           " are not followed; replace it with its target, or move it away";
  }
  std::string file(const std::string& name) const { return folder_.file(name); }
  /// The user's files are as they were.
  bool is_untouched() const {
    const auto text = [&](const std::string& name) {
      const std::vector<std::byte> bytes = read_file(file(name));
      return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    return text("mine/note") == "mine" && text("mine/deep/note") == "mine" && !fs::exists(file("nowhere")) &&
           names_in(FilePlace(file("mine/deep"))) == std::vector<std::string>{"note"};
  }

 private:
  TemporaryFolder folder_;
};

TEST_CASE("Below a folder of others no link is followed, whatever is done, and the message names it") {
  const FolderWithLinks links;
  using Work = std::function<void(const FilePlace&)>;
  const std::pair<const char*, Work> works[] = {
      {"read", [](const FilePlace& place) { read_file(place); }},
      {"read JSON", [](const FilePlace& place) { read_json(place); }},
      {"read npy", [](const FilePlace& place) { read_npy(place); }},
      {"read safetensors", [](const FilePlace& place) { read_safetensors(place); }},
      {"write", [](const FilePlace& place) { write_file_atomically(place, std::string_view("x")); }},
      {"write safetensors", [](const FilePlace& place) { write_safetensors(place, {}); }},
      {"try to write", [](const FilePlace& place) { require_writable(place); }},
      {"append", [](const FilePlace& place) { AppendedFile(place, 0, "").append("x"); }},
      {"ask", [](const FilePlace& place) { status_of(place); }},
      {"make a folder", [](const FilePlace& place) { make_folder(place); }},
      {"list", [](const FilePlace& place) { names_in(place); }},
      {"change the mode", [](const FilePlace& place) { set_mode(place, 0700); }},
  };
  for (const auto& one : works) {
    CAPTURE(one.first);
    const Work& work = one.second;
    for (const std::string name : {"note", "deep", "part/note", "lost"})
      CHECK(message_of<UserError>([&] { work(links.place(name)); }) == links.refusal(name));
    CHECK(message_of<UserError>([&] { work(links.place("deep/note")); }) == links.refusal("deep"));
  }
  for (const auto remove : {remove_file, remove_tree})
    CHECK(message_of<UserError>([&] { remove(links.place("deep/note")); }) == links.refusal("deep"));
  CHECK(message_of<UserError>([&] { rename_at(links.place("part"), links.place("deep/part")); }) ==
        links.refusal("deep"));
  CHECK(links.is_untouched());
}

TEST_CASE("A link is removed itself, alone and with the folder that it is in") {
  const FolderWithLinks links;
  remove_file(links.place("part"));  // a folder stays
  CHECK(is_folder(links.place("part")));
  remove_file(links.place("note"));
  remove_tree(links.place("deep"));
  fs::create_directory_symlink(links.file("mine"), links.file("run/part/mine"));
  make_folder(links.place("part/inner"));
  write_file_atomically(links.place("part/inner/own"), std::string_view("x"));
  remove_tree(links.place("part"));
  CHECK(names_in(FilePlace(links.file("run"))) == std::vector<std::string>{"lost"});
  CHECK(links.is_untouched());
}

TEST_CASE("The folder itself may be a link, and what is in it is read, written, listed and renamed") {
  const FolderWithLinks links;
  const auto place = [&](const std::string& name) { return FilePlace::below(links.file("latest"), name); };
  CHECK(make_folder(place("new")));
  CHECK_FALSE(make_folder(place("new")));
  write_file_atomically(place("new/file"), std::string_view("text"));
  AppendedFile(place("new/file"), 4, "").append("!");
  CHECK(read_file(links.file("run/new/file")).size() == 5);
  CHECK(names_in(place("new")) == std::vector<std::string>{"file"});
  CHECK(names_in(place("none")).empty());
  rename_at(place("new"), place("old"));
  CHECK(is_file(place("old/file")));
  CHECK_FALSE(status_of(place("new")));
  set_mode(place("old/file"), 0600);
  CHECK((status_of(place("old/file"))->st_mode & 07777) == 0600);
  CHECK(message_of<UserError>([&] { read_file(place("../mine/note")); }) ==
        links.file("latest") + "/../mine/note leads out of " + links.file("latest"));
  CHECK(message_of<UserError>([&] { names_in(place("old/file")); }) ==
        "cannot read " + links.file("latest") + "/old/file: Not a directory");
}

TEST_CASE("A pipe or a device is refused at once where the user has not named it") {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  fs::create_symlink(pipe, folder.file("link"));
  for (const std::string& file :
       {pipe, folder.file("link"), std::string("/dev/zero"), std::string("/dev/null")}) {
    const std::string refusal = "cannot read " + file + ": it is a pipe or a device, not a file";
    CHECK(message_of<UserError>([&] { read_file(file); }) == refusal);
    CHECK(message_of<UserError>([&] { read_json(file); }) == refusal);
    CHECK(message_of<UserError>([&] { read_npy(file); }) == refusal);
    CHECK(message_of<UserError>([&] { read_safetensors(file); }) == refusal);
  }
  const FilePlace below = FilePlace::below(folder.path().string(), "pipe");
  CHECK(message_of<UserError>([&] { read_file(below); }) ==
        "cannot read " + pipe + ": it is a pipe or a device, not a file");
  CHECK(message_of<UserError>([&] { write_file_atomically(below, std::string_view("x")); }) ==
        "cannot write " + pipe + ": it is a pipe or a device, not a file");
}

TEST_CASE("A pipe that the user named is read to its end") {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const std::string text(100'000, 'x');
  std::jthread writer([&] {
    const codegen::Descriptor end(::open(pipe.c_str(), O_WRONLY | O_CLOEXEC));
    codegen::write_all(end.get(), text);
  });
  CHECK(read_file(FilePlace::of_user(pipe)).size() == text.size());
}

}  // namespace
}  // namespace rewire::runtime
