// The user's list of code that they have agreed to run.
#include "runtime/plugin/trust_list.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;
using runtime::is_trusted;
using runtime::remember_trusted;

std::string hash(char digit) {
  return std::string(64, digit);
}

/// A data folder of its own, and none after it.
class DataHome {
 public:
  DataHome() : before_(::getenv("XDG_DATA_HOME")) { ::setenv("XDG_DATA_HOME", folder_.path().c_str(), 1); }
  ~DataHome() { ::setenv("XDG_DATA_HOME", before_.c_str(), 1); }
  DataHome(const DataHome&) = delete;
  DataHome& operator=(const DataHome&) = delete;

  std::string list() const { return folder_.file("rewire/trusted"); }
  std::string text() const {
    std::ostringstream text;
    text << std::ifstream(list()).rdbuf();
    return text.str();
  }

 private:
  std::string before_;
  TemporaryFolder folder_;
};

TEST_CASE("A hash is trusted once it is remembered, and one line is kept of it") {
  const DataHome home;
  CHECK_FALSE(is_trusted(hash('a')));
  remember_trusted(hash('a'), "/somewhere/a\nb.so");
  remember_trusted(hash('a'), "/elsewhere.so");
  remember_trusted(hash('b'), "/b.so");
  CHECK(is_trusted(hash('a')));
  CHECK(is_trusted(hash('b')));
  CHECK_FALSE(is_trusted(hash('c')));
  CHECK_FALSE(is_trusted(hash('a').substr(1)));
  CHECK(home.text() == hash('a') + "  # /somewhere/a b.so\n" + hash('b') + "  # /b.so\n");
  struct stat status{};
  REQUIRE(::stat(home.list().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("A list that was edited is read as it stands, half a line at its end included") {
  const DataHome home;
  remember_trusted(hash('a'), "a");
  std::ofstream(home.list()) << "# mine\n\n"
                             << hash('b') << "\r\n"
                             << hash('c') << "  # c\n"
                             << hash('d').substr(9);
  CHECK_FALSE(is_trusted(hash('a')));
  CHECK(is_trusted(hash('b')));
  CHECK(is_trusted(hash('c')));
  remember_trusted(hash('e'), "e");
  CHECK(is_trusted(hash('e')));
  CHECK_FALSE(is_trusted(hash('d')));
}

TEST_CASE("A list that another user could have written is none") {
  const DataHome home;
  remember_trusted(hash('a'), "a");
  for (const auto& [place, mode] : {std::pair{home.list(), 0660},
                                    {home.list(), 0606},
                                    {fs::path(home.list()).parent_path().string(), 0777}}) {
    CAPTURE(place, mode);
    struct stat status{};
    REQUIRE(::stat(place.c_str(), &status) == 0);
    ::chmod(place.c_str(), static_cast<mode_t>(mode));
    CHECK_FALSE(is_trusted(hash('a')));
    remember_trusted(hash('b'), "b");
    ::chmod(place.c_str(), status.st_mode & 07777);
    CHECK(is_trusted(hash('a')));
    CHECK_FALSE(is_trusted(hash('b')));
  }
}

TEST_CASE("Another user's list is none") {
  if (::geteuid() != 0) return;
  const DataHome home;
  remember_trusted(hash('a'), "a");
  REQUIRE(::chown(home.list().c_str(), 65534, 65534) == 0);
  CHECK_FALSE(is_trusted(hash('a')));
  remember_trusted(hash('b'), "b");
  CHECK(home.text() == hash('a') + "  # a\n");
}

TEST_CASE("Where no list can be kept, nothing is trusted and nothing fails") {
  const DataHome home;
  fs::create_directories(home.list());
  remember_trusted(hash('a'), "a");
  CHECK_FALSE(is_trusted(hash('a')));
  fs::remove_all(fs::path(home.list()).parent_path());
  std::ofstream(fs::path(home.list()).parent_path()) << "in the way";
  remember_trusted(hash('a'), "a");
  CHECK_FALSE(is_trusted(hash('a')));
}

TEST_CASE("Many that remember at once each have their line") {
  const DataHome home;
  const std::string digits = "0123456789abcdef";
  std::vector<std::thread> threads;
  for (const char digit : digits)
    threads.emplace_back([digit] { remember_trusted(hash(digit), std::string(1, digit)); });
  for (std::thread& thread : threads) thread.join();
  CHECK(home.text().size() == digits.size() * (64 + 6));
  for (const char digit : digits) CHECK(is_trusted(hash(digit)));
}

}  // namespace
}  // namespace rewire::test
