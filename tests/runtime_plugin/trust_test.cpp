// Whose libraries are loaded: what another user could have written, or put in place, on the way to the file
// and at its end, is refused, by root and by a user.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/plugin/isolated.h"
#include "runtime/plugin/library.h"
#include "tests/runtime_plugin/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534, kOther = 65533;

/// What `user` is told when they load the library; "loaded" if they may. Root asks in a child, as the user.
std::string verdict(uid_t user, const std::string& path) {
  std::string said;
  const runtime::IsolationLimits limits = {std::chrono::seconds(60), 60, std::int64_t{4} << 30, false};
  const auto fault = runtime::run_isolated(
      limits,
      [&](const runtime::Send& send) {
        if (user != ::geteuid() && (::setgid(user) != 0 || ::setuid(user) != 0)) std::abort();
        const std::string error = message_of<UserError>([&] { runtime::open_library(path); });
        send({error.starts_with("(nothing") ? "loaded" : error});
      },
      [&](const runtime::Fields& fields) { said = fields.at(0); });
  return fault ? *fault : said;
}

/// above/folder/gain.so and links/gain.so, which leads to it; all of it `user`'s.
class Tree {
 public:
  explicit Tree(uid_t user) {
    fs::create_directories(path("above/folder"));
    fs::create_directories(path("links"));
    fs::copy_file(fixture_path("gain"), path("above/folder/gain.so"));
    fs::create_symlink(path("above/folder/gain.so"), path("links/gain.so"));
    for (const char* name : {"", "above", "above/folder", "links"}) set(name, user, 0755);
    set("above/folder/gain.so", user, 0644);
    give("links/gain.so", user);
  }
  std::string path(const std::string& name) const {
    return name.empty() ? folder_.path().string() : folder_.file(name);
  }
  void give(const std::string& name, uid_t user) const {
    if (::geteuid() == 0) REQUIRE(::lchown(path(name).c_str(), user, user) == 0);
  }
  void set(const std::string& name, uid_t user, int mode) const {
    give(name, user);
    REQUIRE(::chmod(path(name).c_str(), static_cast<mode_t>(mode)) == 0);
  }

 private:
  TemporaryFolder folder_;
};

std::vector<uid_t> users() {
  return ::geteuid() == 0 ? std::vector<uid_t>{0, kNobody} : std::vector<uid_t>{::geteuid()};
}

TEST_CASE("A library that others can write, or put in place, is refused with the place and the chmod") {
  for (const uid_t user : users()) {
    const Tree tree(user);
    const std::string file = tree.path("above/folder/gain.so"), link = tree.path("links/gain.so");
    CHECK(verdict(user, file) == "loaded");
    CHECK(verdict(user, link) == "loaded");
    for (const char* place : {"above/folder/gain.so", "above/folder", "above", ""}) {
      const int sound = std::string_view(place).ends_with(".so") ? 0644 : 0755;
      for (const auto& [bits, who, letters] :
           {std::tuple{0002, "everybody", "o"}, {0020, "its group", "g"}, {0022, "everybody", "go"}}) {
        CAPTURE(user, place, bits);
        tree.set(place, user, sound | bits);
        const std::string refusal =
            fmt::format("'{0}' is writable by {1}, so the plugin cannot be trusted: chmod {2}-w '{0}'",
                        tree.path(place), who, letters);
        CHECK(verdict(user, file) == fmt::format("cannot load plugin '{}': {}", file, refusal));
        CHECK(verdict(user, link) == fmt::format("cannot load plugin '{}': {}", link, refusal));
        tree.set(place, user, sound);
      }
    }
    // The link's own folder: whoever can put another link there decides what is loaded.
    tree.set("links", user, 0757);
    CHECK_THAT(verdict(user, link),
               REWIRE_CATCH_CONTAINS("'" + tree.path("links") + "' is writable by everybody"));
    CHECK(verdict(user, file) == "loaded");
  }
}

TEST_CASE(
    "A library of another user is refused, and so is one in another's folder or behind another's link") {
  if (::geteuid() != 0) return;
  for (const uid_t user : users()) {
    const Tree tree(user);
    const std::string link = tree.path("links/gain.so");
    for (const char* place :
         {"above/folder/gain.so", "above/folder", "above", "", "links", "links/gain.so"}) {
      CAPTURE(user, place);
      tree.give(place, kOther);
      CHECK(verdict(user, link) ==
            fmt::format("cannot load plugin '{}': '{}' belongs to user 65533, not to you or root, so the "
                        "plugin cannot be trusted: copy it to a folder of yours",
                        link, tree.path(place)));
      tree.give(place, user);
    }
    // In a folder where all may write but only owners take away, what stands on the way must still be ours.
    tree.set("links", 0, 01777);
    tree.give("links/gain.so", kOther);
    CHECK_THAT(verdict(user, link), REWIRE_CATCH_CONTAINS("belongs to user 65533"));
    tree.give("links/gain.so", user);
    CHECK(verdict(user, link) == "loaded");
  }
}

TEST_CASE("Root's libraries are everybody's") {
  if (::geteuid() != 0) return;
  const Tree tree(0);
  CHECK(verdict(kNobody, tree.path("links/gain.so")) == "loaded");
}

TEST_CASE("A library that changes while it is loaded is refused") {
  const TemporaryFolder folder;
  const std::string path = folder.file("ends.so");
  fs::copy_file(fixture_path("ends"), path);
  ::setenv("REWIRE_FIXTURE_AT_LOAD", "touch", 1);
  const std::string error = message_of<UserError>([&] { runtime::open_library(path); });
  ::unsetenv("REWIRE_FIXTURE_AT_LOAD");
  CHECK(error == "cannot load plugin '" + path + "': it changed while it was loaded: try again");
  CHECK(message_of<UserError>([&] { runtime::open_library(path); }) == "(nothing was thrown)");
}

TEST_CASE("A pipe or a folder of that name is no library, and nobody waits for it") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo(folder.file("pipe.so").c_str(), 0600) == 0);
  for (const std::string& path : {folder.file("pipe.so"), folder.path().string()})
    CHECK_THAT(message_of<UserError>([&] { runtime::open_library(path); }),
               REWIRE_CATCH_CONTAINS("it is not a shared library"));
}

}  // namespace
}  // namespace rewire::test
