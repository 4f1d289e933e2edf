// What may be loaded: files, handshakes, permissions, the search path. Every refusal is one clear line.
#include <elf.h>
#include <stdlib.h>
#include <algorithm>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "runtime/io/files.h"
#include "runtime/io/sha256.h"
#include "tests/runtime_plugin/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;
using runtime::PluginInfo;

/// Sets a variable of the environment while it lives.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = ::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() { old_.empty() ? ::unsetenv(name_) : ::setenv(name_, old_.c_str(), 1); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::string old_;
};

std::string copy_to(const TemporaryFolder& folder, const std::string& fixture, const std::string& file) {
  fs::copy_file(fixture_path(fixture), folder.path() / file);
  fs::permissions(folder.path() / file, fs::perms(0644));
  return folder.file(file);
}

std::string path_error(const std::string& path) {
  return message_of<UserError>([&] { runtime::load_plugin({path, {}}, {}); });
}

TEST_CASE("A loaded plugin says what it is, where it came from, and what it takes") {
  const PluginInfo& info = runtime::plugin_info(*load("gain"));
  CHECK(info.name == "gain");
  CHECK(info.version == "1.2.3");
  CHECK(info.doc == "scales one term of the join");
  CHECK(info.path == fs::canonical(fixture_path("gain")));
  CHECK(info.sha256 == runtime::sha256_hex(runtime::read_file(fixture_path("gain"))));
  std::vector<std::string> lines;
  for (const auto& p : info.parameters) {
    lines.push_back(p.name + "|" + p.type + "|" + p.default_value + "|" + p.range);
  }
  const std::vector<std::string> want = {"factor|float|2|0 to 10",
                                         "power|int|1|>= 1",
                                         "negate|bool|false|",
                                         "slot|enum|branch|branch|shortcut|path|cleared|untouched|facts",
                                         "note|str||",
                                         "sites|list|all|attn+mlp+conv",
                                         "layers|list|all|0+1+4-5",
                                         "stages|list|all|0+2-3",
                                         "scope|str|encoder|",
                                         "from_epoch|int|0|>= 0",
                                         "to_epoch|int|end|> from_epoch"};
  CHECK(lines == want);
}

TEST_CASE("A plugin in plain C loads") {
  CHECK(runtime::plugin_info(*load("plain")).doc == "adds a scaled tanh of the branch's input");
}

TEST_CASE("A file that is no plugin is refused before any of its code runs") {
  const TemporaryFolder folder;
  std::ofstream(folder.file("text.so")) << "not a library\n";
  std::ofstream(folder.file("empty.so"));
  CHECK(path_error(folder.file("text.so")) ==
        "cannot load plugin '" + folder.file("text.so") + "': it is not a shared library");
  CHECK_THAT(path_error(folder.file("empty.so")), REWIRE_CATCH_CONTAINS("it is not a shared library"));
  CHECK_THAT(path_error(folder.path().string()), REWIRE_CATCH_CONTAINS("it is not a shared library"));
  CHECK_THAT(path_error(folder.file("absent.so")), REWIRE_CATCH_CONTAINS("No such file or directory"));
  CHECK_THAT(load_error("no_symbol"),
             REWIRE_CATCH_CONTAINS("it is not a rewire plugin: it exports no rewire_plugin_query"));
}

TEST_CASE("A truncated plugin is refused, wherever it was cut") {
  const TemporaryFolder folder;
  const std::string path = copy_to(folder, "gain", "cut.so");
  const std::uintmax_t size = fs::file_size(path);
  for (std::uintmax_t cut = size - 1; cut > 0; cut -= std::min<std::uintmax_t>(cut, size / 40)) {
    CAPTURE(cut, size);
    fs::resize_file(path, cut);
    CHECK_THAT(path_error(path), REWIRE_CATCH_CONTAINS("it is"));
  }
}

/// Where the words of the filter in the section .gnu.hash begin, and their bytes.
std::pair<std::size_t, std::size_t> hash_filter(const std::vector<std::byte>& library) {
  const auto at = [&]<class T>(std::size_t offset, T value) {
    std::memcpy(&value, library.data() + offset, sizeof value);
    return value;
  };
  const auto header = at(0, Elf64_Ehdr{});
  for (int i = 0; i < header.e_shnum; ++i) {
    const auto section = at(header.e_shoff + static_cast<std::size_t>(i) * sizeof(Elf64_Shdr), Elf64_Shdr{});
    constexpr std::size_t kHead = 16, kWords = 8;  // four numbers, of which the third counts the words
    if (section.sh_type == SHT_GNU_HASH)
      return {section.sh_offset + kHead, 8 * std::size_t{at(section.sh_offset + kWords, std::uint32_t{})}};
  }
  return {0, 0};
}

TEST_CASE("A plugin whose hash table is damaged, so that the linker does not find its symbol, is refused") {
  const TemporaryFolder folder;
  std::vector<std::byte> bytes = runtime::read_file(fixture_path("gain"));
  const auto [begin, size] = hash_filter(bytes);
  REQUIRE(size > 0);
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(begin), size, std::byte{0});
  const std::string path = folder.file("flipped.so");
  runtime::write_file_atomically(path, bytes);
  // A library that refers to its own symbol (AddressSanitizer's registration does) is refused by the linker itself.
  CHECK_THAT(path_error(path),
             REWIRE_CATCH_CONTAINS("cannot load plugin '" + path + "': the dynamic linker ") &&
                 REWIRE_CATCH_CONTAINS("rewire_plugin_query"));
}

TEST_CASE("A plugin of another ABI is refused with both versions and the way out") {
  CHECK_THAT(load_error("newer_major"),
             REWIRE_CATCH_CONTAINS("it was built (gcc test build) for plugin ABI 2.0, but this rewire has "
                                   "1.6: update rewire, or rebuild the plugin against this rewire's SDK"));
  CHECK_THAT(load_error("newer_minor"),
             REWIRE_CATCH_CONTAINS("plugin ABI 1.7, but this rewire has 1.6: update rewire, or rebuild"));
  CHECK_THAT(load_error("older_major"),
             REWIRE_CATCH_CONTAINS("plugin ABI 0.9, but this rewire has 1.6: rebuild the plugin"));
}

TEST_CASE("A plugin built with another sanitizer is refused") {
  CHECK_THAT(load_error("other_sanitizer"), REWIRE_CATCH_CONTAINS("build both the same way"));
  // A real one: a sanitizer's runtime, once opened, would end the process.
  CHECK_THAT(load_error("other_build"), REWIRE_CATCH_CONTAINS("build both the same way"));
}

TEST_CASE("A descriptor that is none, or half of one, is refused") {
  CHECK_THAT(load_error("no_descriptor"), REWIRE_CATCH_CONTAINS("it refuses this rewire's plugin ABI"));
  CHECK_THAT(load_error("throwing_query"),
             REWIRE_CATCH_CONTAINS("its rewire_plugin_query() threw an exception"));
  CHECK_THAT(load_error("bad_magic"), REWIRE_CATCH_CONTAINS("its descriptor is not that of a rewire plugin"));
  CHECK_THAT(load_error("small_descriptor"), REWIRE_CATCH_CONTAINS("its descriptor has 64 bytes"));
  CHECK_THAT(load_error("bad_name"), REWIRE_CATCH_CONTAINS("its name 'Bad-Name' is invalid"));
  CHECK_THAT(load_error("no_rewrite"), REWIRE_CATCH_CONTAINS("lacks a version"));
}

TEST_CASE("What a descriptor says in several lines is one line") {
  CHECK_THAT(load_error("name_of_lines"), REWIRE_CATCH_CONTAINS("its name 'two lines' is invalid"));
  CHECK_THAT(load_error("build_of_lines"),
             REWIRE_CATCH_CONTAINS("it was built (two lines) for plugin ABI 2.0"));
}

TEST_CASE("A schema that contradicts itself is refused") {
  CHECK_THAT(load_error("bad_default"),
             REWIRE_CATCH_CONTAINS(
                 "a default in its schema is refused: level=5 is out of range: it takes an int 0 to 3"));
  CHECK_THAT(load_error("named_as_filter"), REWIRE_CATCH_CONTAINS("'layers' has the name of a filter"));
  CHECK_THAT(load_error("parameter_twice"), REWIRE_CATCH_CONTAINS("it declares the parameter 'fine' twice"));
  CHECK_THAT(load_error("missing_schema"), REWIRE_CATCH_CONTAINS("its schema of 1 parameters is missing"));
}

TEST_CASE("A name is looked for in the given folders, then the environment's, first match wins") {
  const TemporaryFolder first, second, data;
  copy_to(first, "gain", "one.so");
  copy_to(second, "plain", "one.so");
  copy_to(second, "plain", "two.so");
  fs::create_directories(data.path() / "rewire/plugins");
  copy_to(data, "gain", "rewire/plugins/three.so");
  const Environment path("REWIRE_PLUGIN_PATH", ":" + second.path().string() + "::");
  const Environment xdg("XDG_DATA_HOME", data.path().string());

  const auto name_of = [&](const std::string& name, const std::vector<std::string>& extra) {
    return runtime::plugin_info(*runtime::load_plugin({name, {}}, extra)).name;
  };
  CHECK(name_of("one", {first.path().string()}) == "gain");
  CHECK(name_of("one", {}) == "plain");
  CHECK(name_of("two", {first.path().string()}) == "plain");
  CHECK(name_of("three", {}) == "gain");

  const std::vector<std::string> folders = runtime::plugin_search_path({first.path().string()});
  REQUIRE(folders.size() == 4);
  CHECK(folders[0] == first.path().string());
  CHECK(folders[1] == second.path().string());
  CHECK(folders[2] == (data.path() / "rewire/plugins").string());
  CHECK_THAT(folders[3], REWIRE_CATCH_CONTAINS("/lib/rewire/plugins"));

  std::vector<std::string> listed;
  for (const PluginInfo& info : runtime::list_plugins({first.path().string()})) listed.push_back(info.path);
  CHECK(std::count(listed.begin(), listed.end(), first.file("one.so")) == 1);
  CHECK(std::count(listed.begin(), listed.end(), second.file("one.so")) == 0);
  CHECK(std::count(listed.begin(), listed.end(), second.file("two.so")) == 1);
}

TEST_CASE("The current folder is never searched") {
  const TemporaryFolder folder;
  copy_to(folder, "gain", "here.so");
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  const std::string error = path_error("here");
  const std::string file_error = path_error("here.so");
  const std::string relative = message_of<UserError>([] {
    const Environment path("REWIRE_PLUGIN_PATH", ".");
    runtime::plugin_search_path({});
  });
  CHECK(runtime::plugin_info(*runtime::load_plugin({"./here.so", {}}, {})).name == "gain");
  fs::current_path(before);
  CHECK_THAT(error, REWIRE_CATCH_CONTAINS("there is no plugin 'here'"));
  CHECK_THAT(file_error, REWIRE_CATCH_CONTAINS("write a file with a slash, ./here.so"));
  CHECK_THAT(relative, REWIRE_CATCH_CONTAINS("REWIRE_PLUGIN_PATH has '.': its folders must be absolute"));
}

TEST_CASE("An unknown name gets the nearest match and the folders that were searched") {
  const std::string error =
      message_of<UserError>([] { runtime::load_plugin({"gainn", {}}, {REWIRE_FIXTURES}); });
  CHECK_THAT(error, REWIRE_CATCH_CONTAINS(
                        "there is no plugin 'gainn' (did you mean 'gain'?); looked for gainn.so in " +
                        std::string(REWIRE_FIXTURES)));
}

TEST_CASE("A listing leaves out what cannot be loaded") {
  std::vector<std::string> names;
  for (const PluginInfo& info : runtime::list_plugins({REWIRE_FIXTURES})) names.push_back(info.name);
  CHECK(std::count(names.begin(), names.end(), "gain") >= 1);
  CHECK(std::count(names.begin(), names.end(), "wrong") == 0);
}

}  // namespace
}  // namespace rewire::test
