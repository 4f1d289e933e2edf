// The kernel cache: hits, misses, damaged entries, unsafe folders, several processes at once.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/llvm/jit.h"
#include "codegen/object_cache.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tile_builder.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;
using codegen::CachedObject;
using codegen::ObjectCache;
using ir::Opcode;

/// y[c] = factor x[c], 20 elements.
codegen::tile::Kernel scale(double factor, const std::string& name = "scale") {
  TileBuilder t(name);
  const auto c = t.lane("c", 20);
  const auto x = t.load(t.input("x"), {{c, 1}});
  t.store(t.output("y"), t.op(Opcode::mul, {x, t.constant(factor)}), {{c, 1}});
  return t.finish();
}

/// y[19] for x[19] = 3.
float run(const codegen::CompiledKernel& compiled) {
  alignas(64) float x[20] = {}, y[20] = {};
  alignas(64) char scratch[64];
  x[19] = 3;
  void* const arguments[] = {x, y};
  compiled.function(arguments, 0, 1, scratch);
  return y[19];
}

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The one .kernel file of a folder.
fs::path entry_of(const fs::path& folder) {
  fs::path found;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() == ".kernel") found = file.path();
  }
  return found;
}

TEST_CASE("kernels of one structure compile once") {
  codegen::CpuJit jit({});
  const std::vector<codegen::tile::Kernel> kernels = {scale(2, "a"), scale(3, "b"), scale(2, "c")};
  const auto compiled = jit.compile(kernels);
  CHECK(compiled[0].function == compiled[2].function);
  CHECK(run(compiled[0]) == 6);
  CHECK(run(compiled[1]) == 9);
  CHECK(jit.statistics().kernels == 3);
  CHECK(jit.statistics().unique == 2);
  CHECK(jit.statistics().compiled == 2);
  CHECK(jit.compile(kernels)[1].function == compiled[1].function);
  CHECK(jit.statistics().unique == 2);
}

TEST_CASE("a second run takes its kernels from the disk") {
  const TemporaryFolder folder;
  const std::string directory = (folder.path() / "kernels").string();
  for (int round = 0; round < 2; ++round) {
    codegen::CpuJit jit({directory, 2, ""});
    const std::vector<codegen::tile::Kernel> kernels = {scale(2), scale(3)};
    const auto compiled = jit.compile(kernels);
    CHECK(run(compiled[1]) == 9);
    CHECK(jit.statistics().cache_hits == (round == 0 ? 0 : 2));
    CHECK(jit.statistics().compiled == (round == 0 ? 2 : 0));
  }
  struct stat status{};
  REQUIRE(::stat(directory.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
}

TEST_CASE("the tile text stands beside the object") {
  const TemporaryFolder folder;
  codegen::CpuJit jit({folder.path().string(), 1, ""});
  const auto kernel = scale(2);
  jit.compile({&kernel, 1});
  fs::path text = entry_of(folder.path());
  CHECK(contents(text.replace_extension(".tile")) == codegen::tile::print(kernel));
}

TEST_CASE("another CPU is another entry") {
  const TemporaryFolder folder;
  const auto kernel = scale(2);
  for (const char* cpu : {"", "haswell", "x86-64-v2"}) {
    codegen::CpuJit jit({folder.path().string(), 1, cpu});
    CHECK(run(jit.compile({&kernel, 1})[0]) == 6);
    CHECK(jit.statistics().compiled == 1);
  }
}

TEST_CASE("a damaged entry is compiled again and replaced") {
  const TemporaryFolder folder;
  const auto kernel = scale(2);
  const auto compile = [&] {
    codegen::CpuJit jit({folder.path().string(), 1, ""});
    CHECK(run(jit.compile({&kernel, 1})[0]) == 6);
    return jit.statistics().cache_hits;
  };
  CHECK(compile() == 0);
  const fs::path entry = entry_of(folder.path());
  const std::string sound = contents(entry);
  const auto write = [&](const std::string& text) { std::ofstream(entry, std::ios::binary) << text; };
  for (std::size_t at : {std::size_t{0}, std::size_t{17}, std::size_t{25}, std::size_t{45}, std::size_t{100},
                         sound.size() - 1}) {
    CAPTURE(at);
    std::string damaged = sound;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    write(damaged);
    CHECK(compile() == 0);
    CHECK(contents(entry) == sound);
    CHECK(compile() == 1);
  }
  for (std::size_t length : {std::size_t{0}, std::size_t{10}, std::size_t{60}, sound.size() - 1}) {
    CAPTURE(length);
    write(sound.substr(0, length));
    CHECK(compile() == 0);
  }
  write(sound + "more");
  CHECK(compile() == 0);
}

TEST_CASE("an entry under another key's name is a miss") {
  const TemporaryFolder folder;
  const ObjectCache cache(folder.path().string());
  REQUIRE(cache.store("key", {"object", 64}, "text", "tile"));
  REQUIRE(cache.load("key").has_value());
  CHECK(cache.load("key")->object == "object");
  CHECK(cache.load("key")->scratch_bytes == 64);
  fs::copy_file(cache.path("key"), cache.path("other"));
  CHECK_FALSE(cache.load("other").has_value());
  CHECK_FALSE(cache.load("third").has_value());
}

TEST_CASE("a folder that others can write to is refused") {
  const TemporaryFolder folder;
  const std::string directory = folder.path().string();
  fs::permissions(folder.path(), fs::perms::owner_all | fs::perms::others_write);
  CHECK(message_of<UserError>([&] { ObjectCache cache(directory); }) ==
        "kernel cache " + directory + ": '" + directory +
            "' is writable by everybody, so code in it cannot be trusted: chmod o-w '" + directory + "'");
  fs::permissions(folder.path(), fs::perms::owner_all);
  CHECK_NOTHROW(ObjectCache(directory));
}

TEST_CASE("a file in the folder's place is refused") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "file").string();
  std::ofstream(path) << "x";
  CHECK(message_of<UserError>([&] { ObjectCache cache(path); }) == "kernel cache " + path + ": not a folder");
}

TEST_CASE("a bit that is flipped anywhere in an entry makes it a miss") {
  const TemporaryFolder folder;
  const ObjectCache cache(folder.path().string());
  REQUIRE(cache.store("key", {"object", 64}, "text", "tile"));
  const std::string sound = contents(cache.path("key"));
  for (std::size_t bit = 0; bit < 8 * sound.size(); ++bit) {
    CAPTURE(bit);
    std::string damaged = sound;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    std::ofstream(cache.path("key"), std::ios::binary) << damaged;
    std::string why;
    REQUIRE_FALSE(cache.load("key", &why).has_value());
    REQUIRE_FALSE(why.empty());
  }
}

TEST_CASE("an entry that others could have written, or that is no file, is a miss and is replaced") {
  const TemporaryFolder folder;
  const ObjectCache cache(folder.path().string());
  const std::string entry = cache.path("key");
  const auto miss = [&] {
    std::string why;
    CHECK_FALSE(cache.load("key", &why).has_value());
    const bool replaced = cache.store("key", {"object", 64}, "text", "tile");
    CHECK(replaced == cache.load("key").has_value());
    return why;
  };
  REQUIRE(cache.store("key", {"object", 64}, "text", "tile"));
  fs::permissions(entry, fs::perms(0620));
  CHECK(miss() == "the entry cannot be trusted: it is writable by its group");
  fs::permissions(entry, fs::perms(0602));
  CHECK(miss() == "the entry cannot be trusted: it is writable by everybody");
  fs::rename(entry, folder.path() / "elsewhere");
  fs::create_symlink("elsewhere", entry);
  CHECK(miss() == "the entry: Too many levels of symbolic links");
  CHECK_FALSE(fs::is_symlink(entry));
  fs::remove(entry);
  REQUIRE(::mkfifo(entry.c_str(), 0600) == 0);
  CHECK(miss() == "the entry cannot be trusted: it is not a regular file");
  fs::remove(entry);
  fs::create_directory(entry);
  CHECK(miss() == "the entry cannot be trusted: it is not a regular file");
  fs::remove(entry);
  REQUIRE(cache.store("key", {"object", 64}, "text", "tile"));
  if (::geteuid() == 0 && ::chown(entry.c_str(), 65534, 65534) == 0) {
    CHECK(miss() == "the entry cannot be trusted: it belongs to user 65534");
  }
}

TEST_CASE("what killed processes left half-written goes when it is an hour old") {
  const TemporaryFolder folder;
  const auto age = [&](const std::string& name, int minutes) {
    std::ofstream(folder.file(name)) << "half";
    fs::last_write_time(folder.file(name), fs::file_time_type::clock::now() - std::chrono::minutes(minutes));
  };
  age("a.kernel.12.3.tmp", 61);
  age(".rewire-0123456789abcdef.tmp", 61);
  age(".rewire-fedcba9876543210.tmp", 59);
  age("a.kernel", 1000);
  const ObjectCache cache(folder.path().string());
  REQUIRE(cache.store("key", {"object", 64}, "text", "tile"));
  CHECK_FALSE(fs::exists(folder.file("a.kernel.12.3.tmp")));
  CHECK_FALSE(fs::exists(folder.file(".rewire-0123456789abcdef.tmp")));
  CHECK(fs::exists(folder.file(".rewire-fedcba9876543210.tmp")));
  CHECK(fs::exists(folder.file("a.kernel")));
}

TEST_CASE("a cache's folders are made for the user alone, whatever the umask") {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0);
  CHECK_NOTHROW(ObjectCache(folder.file("cache/rewire/kernels")));
  ::umask(before);
  for (const char* made : {"cache", "cache/rewire", "cache/rewire/kernels"})
    CHECK((fs::status(folder.file(made)).permissions() & fs::perms::mask) == fs::perms::owner_all);
}

TEST_CASE("an entry that cannot be written is no failure") {
  const TemporaryFolder folder;
  const std::string directory = (folder.path() / "gone").string();
  const ObjectCache cache(directory);
  fs::remove_all(directory);
  CHECK_FALSE(cache.store("key", {"object", 0}, "text", "tile"));
  CHECK_FALSE(cache.load("key").has_value());
}

TEST_CASE("processes that share a cache never see half an entry") {
  const TemporaryFolder folder;
  const ObjectCache cache(folder.path().string());
  const std::string object(1 << 16, 'o');
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      bool good = true;
      for (int round = 0; round < 200; ++round) {
        const std::string key = "key " + std::to_string(round % 3);
        good = cache.store(key, {object, round % 3}, "text", "tile") && good;
        const auto entry = cache.load(key);
        good = good && entry && entry->object == object && entry->scratch_bytes == round % 3;
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (pid_t child : children) {
    int status = 1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WEXITSTATUS(status) == 0);
  }
  for (const auto& file : fs::directory_iterator(folder.path())) CHECK(file.path().extension() != ".tmp");
}

}  // namespace
}  // namespace rewire::test
