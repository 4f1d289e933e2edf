// Two users of one machine: what another one has laid where Rewire looks makes it run nothing, write nothing
// elsewhere, and believe nothing. Only root can lay such files.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kOther = 65534;

/// False where there is no other user to be.
bool give_away(const std::string& path) {
  if (::geteuid() == 0 && ::lchown(path.c_str(), kOther, kOther) == 0) return true;
  WARN("not run: only root can lay the files of another user");
  return false;
}

/// A cache of its own, filled by one run of a small model.
class SharedPlace {
 public:
  SharedPlace() { REQUIRE(run().code == 0); }
  std::string file(const std::string& name) const { return folder_.file(name); }
  Outcome run() const {
    Words words =
        Words{"bench"} + kModel + Words{"--set", "train.batch=2", "--steps", "1", "--mode", "infer"};
    RunningCommand command(words, {"XDG_CACHE_HOME=" + file("cache")});
    return command.wait();
  }
  std::string kernels() const { return file("cache/rewire"); }
  std::vector<fs::path> entries(const std::string& suffix) const {
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(file("cache")))
      if (entry.path().extension() == suffix) found.push_back(entry.path());
    return found;
  }

 private:
  TemporaryFolder folder_;
};

std::string cached(const Outcome& outcome) {
  const std::size_t at = outcome.out.find("different, ");
  return at == std::string::npos ? outcome.out : outcome.out.substr(at, outcome.out.find('\n', at) - at);
}

TEST_CASE("A kernel of another user in the cache is compiled again and replaced") {
  const SharedPlace place;
  const std::vector<fs::path> kernels = place.entries(".kernel");
  REQUIRE(kernels.size() > 2);
  const std::string all = cached(place.run());
  for (const fs::path& kernel : kernels) {
    if (!give_away(kernel.string())) return;
  }
  const Outcome planted = place.run();
  CHECK(planted.code == 0);
  CHECK(cached(planted) == "different, 0 from the cache");
  for (const fs::path& kernel : kernels) {
    struct stat status{};
    REQUIRE(::stat(kernel.c_str(), &status) == 0);
    CHECK(status.st_uid == ::geteuid());
  }
  CHECK(cached(place.run()) == all);
}

TEST_CASE("A cache folder of another user, or one that others could exchange, is not used") {
  const SharedPlace place;
  const std::string folder = fs::canonical(place.file("cache")).string();
  const auto refused = [&](const std::string& why) {
    const Outcome outcome = place.run();
    CHECK(outcome.code == 0);
    CHECK_THAT(outcome.err,
               REWIRE_CATCH_CONTAINS("rewire: warning: kernel cache ") && REWIRE_CATCH_CONTAINS(why));
    CHECK(cached(outcome) == "different, 0 from the cache");
  };
  for (const std::string& place_on_the_way : {folder, folder + "/rewire"}) {
    fs::permissions(place_on_the_way, fs::perms(0777));
    refused("'" + place_on_the_way +
            "' is writable by everybody, so code in it cannot be trusted: chmod go-w '" + place_on_the_way +
            "'");
    fs::permissions(place_on_the_way, fs::perms(0700));
  }
  if (!give_away(folder)) return;
  refused("'" + folder + "' belongs to user 65534, not to you or root");
}

TEST_CASE("A link that another user has laid into a shared folder is not written through") {
  const TemporaryFolder folder;
  const std::string shared = folder.file("shared"), secret = folder.file("secret");
  fs::create_directory(shared);
  fs::permissions(shared, fs::perms(01777));
  write_text(secret, "mine");
  const std::string link = shared + "/w.safetensors";
  fs::create_symlink(secret, link);
  const Words init = Words{"init"} + kModel + Words{"--output", link, "--quiet"};
  CHECK(rewire_command(init).code == 0);  // one's own
  CHECK(fs::is_symlink(link));
  write_text(secret, "mine");
  if (!give_away(link)) return;
  const Outcome outcome = rewire_command(init);
  CHECK(outcome.code == 2);
  CHECK(outcome.err ==
        "rewire: cannot write " + link + ": " + link + " is a link that belongs to user 65534\n");
  CHECK(read_text(secret) == "mine");
}

}  // namespace
}  // namespace rewire::test
