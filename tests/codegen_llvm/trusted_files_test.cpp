// Whose files are trusted: every place on the way, and what stands there.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "codegen/files/replacing_file.h"
#include "codegen/files/trusted.h"
#include "ir/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

using codegen::open_trusted;

constexpr uid_t kNobody = 65534;

/// Tree a/b/file, with a link to the file in a/links.
class Tree {
 public:
  Tree() {
    fs::create_directories(path("a/b"));
    fs::create_directories(path("a/links"));
    std::ofstream(path("a/b/file")) << "text";
    fs::create_symlink(path("a/b/file"), path("a/links/file"));
    fs::create_symlink("../b", path("a/links/b"));
  }
  std::string path(const std::string& name) const { return folder_.file(name); }
  std::string open(const std::string& name) const {
    return open_trusted(path(name), O_RDONLY, "the plugin").path;
  }
  std::string refusal(const std::string& name) const {
    return message_of<UserError>([&] { open(name); });
  }
  void mode(const std::string& name, int bits) const {
    REQUIRE(::chmod(path(name).c_str(), static_cast<mode_t>(bits)) == 0);
  }

 private:
  TemporaryFolder folder_;
};

TEST_CASE("A file of one's own is opened, through links and beyond '..'") {
  const Tree tree;
  const std::string file = fs::canonical(tree.path("a/b/file")).string();
  CHECK(tree.open("a/b/file") == file);
  CHECK(tree.open("a/links/file") == file);
  CHECK(tree.open("a/links/b/file") == file);
  CHECK(tree.open("a//links/./../b/file") == file);
  CHECK(tree.open("a/b") == fs::path(file).parent_path().string());
  CHECK(open_trusted("/", O_RDONLY, "it").path == "/");
  CHECK(open_trusted(".", O_RDONLY, "it").path == fs::current_path().string());
}

TEST_CASE("What cannot be opened is told with the system's reason") {
  const Tree tree;
  CHECK(tree.refusal("a/none") == "cannot open '" + tree.path("a/none") + "': No such file or directory");
  CHECK(tree.refusal("a/b/file/x") == "cannot open '" + tree.path("a/b/file/x") + "': Not a directory");
  fs::create_symlink("loop", tree.path("loop"));
  CHECK(tree.refusal("loop") == "cannot open '" + tree.path("loop") + "': Too many levels of symbolic links");
  CHECK(message_of<UserError>([] { open_trusted("", O_RDONLY, "it"); }) == "'' is not a path of a file");
}

TEST_CASE("What others can write, on the way or at its end, is refused with the chmod that mends it") {
  const Tree tree;
  for (const auto& [place, asked] : {std::pair{"a", "a/b/file"},
                                     {"a/b", "a/b/file"},
                                     {"a/b/file", "a/b/file"},
                                     {"a/b/file", "a/links/file"},
                                     {"a/links", "a/links/file"},
                                     {"a/b", "a/links/b/file"},
                                     {"a/b", "a/b"}}) {
    const int sound = std::string_view(place).ends_with("file") ? 0644 : 0755;
    for (const auto& [bit, who, letters] :
         {std::tuple{0020, "its group", "g"}, {0002, "everybody", "o"}, {0022, "everybody", "go"}}) {
      CAPTURE(place, asked, bit);
      tree.mode(place, sound | bit);
      const std::string named = fs::canonical(tree.path(place)).string();
      CHECK(tree.refusal(asked) ==
            fmt::format("'{}' is writable by {}, so the plugin cannot be trusted: chmod {}-w '{}'", named,
                        who, letters, named));
      tree.mode(place, sound);
      CHECK_NOTHROW(tree.open(asked));
    }
  }
}

TEST_CASE("A sticky folder may be on the way, but not hold the file, nor be what is asked for") {
  const Tree tree;
  tree.mode("a", 01777);
  CHECK_NOTHROW(tree.open("a/b/file"));
  CHECK_NOTHROW(tree.open("a/b"));
  tree.mode("a", 0755);
  tree.mode("a/b", 01777);
  const std::string named = fs::canonical(tree.path("a/b")).string();
  const std::string refusal =
      "everybody can put files into '" + named + "', so the plugin cannot be trusted: use a folder of yours";
  CHECK(tree.refusal("a/b/file") == refusal);
  CHECK(tree.refusal("a/b") == refusal);
}

TEST_CASE("What belongs to another user is refused, were it only a link") {
  if (::geteuid() != 0) return;
  const Tree tree;
  for (const auto& [place, asked] : {std::pair{"a", "a/b/file"},
                                     {"a/b", "a/b/file"},
                                     {"a/b/file", "a/b/file"},
                                     {"a/links/file", "a/links/file"}}) {
    CAPTURE(place, asked);
    const std::string path =
        (fs::canonical(fs::path(tree.path(place)).parent_path()) / fs::path(place).filename()).string();
    if (::lchown(path.c_str(), kNobody, kNobody) != 0) {
      WARN("not run: root cannot give a file away here");
      return;
    }
    CHECK(tree.refusal(asked) == "'" + path +
                                     "' belongs to user 65534, not to you or root, so the plugin cannot be "
                                     "trusted: copy it to a folder of yours");
    REQUIRE(::lchown(path.c_str(), 0, 0) == 0);
  }
}

TEST_CASE("A replaced file is whole or the old one, whatever stands under temporary names") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x");
  std::ofstream(path) << "old";
  const codegen::Descriptor place(::open(folder.path().c_str(), O_PATH | O_DIRECTORY));
  const auto text = [&] {
    std::string content;
    std::getline(std::ifstream(path), content);
    return content;
  };
  {
    codegen::ReplacingFile file(place.get(), "x", 0600);
    CHECK(file.write("new"));
    CHECK(text() == "old");
  }
  CHECK(text() == "old");
  codegen::ReplacingFile file(place.get(), "x", 0600);
  CHECK(file.write("new"));
  CHECK(file.commit(codegen::ReplacingFile::Durability::synced));
  CHECK(text() == "new");
  CHECK(folder.entries() == 1);
  codegen::ReplacingFile in_the_way(place.get(), "y", 0600);
  fs::create_directory(folder.file("y"));
  CHECK(in_the_way.write("text"));
  CHECK_FALSE(in_the_way.commit(codegen::ReplacingFile::Durability::none));
  CHECK(in_the_way.error() == EISDIR);
  CHECK_FALSE(in_the_way.write("more"));
}

}  // namespace
}  // namespace rewire::test
