#include "runtime/plugin/skeleton.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/plugin/schema.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

// In all of these, @NAME@ is the plugin's name and @VERSION@ the version of Rewire.

constexpr std::string_view kCMakeLists = R"(# The residual strategy @NAME@:
#   cmake -S . -B build && cmake --build build && ctest --test-dir build
# If find_package does not find rewire, add -DCMAKE_PREFIX_PATH=<where it is installed>.
cmake_minimum_required(VERSION 3.22)
project(@NAME@ LANGUAGES CXX)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_package(rewire @VERSION@ REQUIRED)
rewire_add_plugin(@NAME@ @NAME@.cpp) # build/@NAME@.so

enable_testing()
add_subdirectory(test)
)";

constexpr std::string_view kSource =
    R"(// @NAME@: x' = x + c f. Every channel of the branch f is scaled by a learned factor c that begins small.
)"
    "#include <rewire_plugin.hpp>\n"
    R"(
namespace {

using namespace rewire::plugin;

// What a user may set, as in --plugin ./build/@NAME@.so:start=0.5; Rewire parses and checks it.
constexpr rewire_parameter kParameters[] = {
    float_parameter("start", "0.1", "initial value of every factor", above(0)),
};

// Called once for each model. A join is the sum of its shortcut (the stream x), its branch f and whatever
// paths are added; a strategy sets those terms. Ops on values are IR: gradients and kernels follow from them.
void rewrite(const Rewrite& call) {
  const Init start = Init::constant(call.get_float("start"));
  for (const Join& join : call.joins()) {
    const Value f = join.branch;
    const Value c = join.add_weight("branch_scale", join.channel_shape(), start, Group::no_decay);
    join.set_branch(c * f);
  }
}

}  // namespace

REWIRE_PLUGIN("@NAME@", "0.1.0", "scales every channel of the branch by a learned factor", kParameters,
              rewrite)
)";

constexpr std::string_view kTest =
    R"(# What every strategy must satisfy, and twenty steps of training on made-up images.
set(run "${CMAKE_CURRENT_BINARY_DIR}/run")
add_test(NAME plugin_test COMMAND "${REWIRE_PROGRAM}" plugin test "$<TARGET_FILE:@NAME@>")
add_test(NAME remove_last_run COMMAND "${CMAKE_COMMAND}" -E rm -rf "${run}")
add_test(NAME trains
         COMMAND "${REWIRE_PROGRAM}" train vit_tiny_28 --plugin "$<TARGET_FILE:@NAME@>" --out "${run}"
                 --set model.dim=24 --set model.depth=2 --set data.format=synthetic --set data.count=160
                 --set train.batch=8 --set train.epochs=1)
set_tests_properties(remove_last_run PROPERTIES FIXTURES_SETUP no_run)
set_tests_properties(trains PROPERTIES FIXTURES_REQUIRED no_run)
)";

// @WHAT@ and @VALUE@ are about the source that is written.
constexpr std::string_view kReadme = R"(# @NAME@

A residual strategy for Rewire: @WHAT@.

    cmake -S . -B build && cmake --build build
    rewire plugins info ./build/@NAME@.so      # its parameters
    rewire plugin test ./build/@NAME@.so       # what every strategy must satisfy
    ctest --test-dir build                     # that, and twenty steps of training
    rewire verify vit_tiny_28 --set model.depth=2 --plugin ./build/@NAME@.so
    rewire train vit_tiny_28 --plugin ./build/@NAME@.so@VALUE@

`@NAME@.cpp` is the whole strategy. @HEADER@
)";

/// Names that CMake reserves for its own targets, and the one that --plugin reserves.
constexpr std::array<std::string_view, 10> kReserved = {
    "all",     "clean",          "edit_cache", "help", "install",
    "package", "package_source", "preinstall", "test", "rebuild_cache"};

std::string filled(std::string_view text, std::string_view name, bool has_source) {
  std::string result(text);
  const auto replace = [&](std::string_view mark, std::string_view value) {
    for (std::size_t at = 0; (at = result.find(mark, at)) != std::string::npos; at += value.size())
      result.replace(at, mark.size(), value);
  };
  replace("@NAME@", name);
  replace("@VERSION@", REWIRE_VERSION);
  replace("@WHAT@", has_source ? "its formulas are at the top of the source"
                               : "x' = x + c f, with one learned factor c per channel");
  replace("@VALUE@", has_source ? "" : ":start=0.5");
  replace("@HEADER@",
          has_source
              ? "`rewire_formula.hpp` documents formulas, and `rewire_plugin.hpp`\nwhat else a join offers."
              : "`rewire_plugin.hpp` documents what a join offers.");
  return result;
}

/// Removes an unfinished folder, unless it has been moved to its place.
struct Begun {
  fs::path path;
  ~Begun() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

}  // namespace

ProjectFiles plugin_skeleton(std::string_view name, const std::string& source) {
  if (!ir::is_identifier(name)) {
    user_error("'{}' is not a name for a plugin: use a lower-case letter, then letters, digits and _",
               printable(name));
  }
  if (name == "none") user_error("a plugin cannot be called none: --plugin none means no plugin");
  if (std::ranges::find(kReserved, name) != kReserved.end())
    user_error("'{}' is a target that CMake makes itself: choose another name", name);
  const auto text = [&](std::string_view file) { return filled(file, name, !source.empty()); };
  return {{"CMakeLists.txt", text(kCMakeLists)},
          {std::string(name) + ".cpp", source.empty() ? text(kSource) : source},
          {"test/CMakeLists.txt", text(kTest)},
          {"README.md", text(kReadme)}};
}

void write_plugin_skeleton(const std::string& parent, const std::string& name, const ProjectFiles& files) {
  const fs::path folder = fs::path(parent) / name;
  const auto refuse = [&] { user_error("{} already exists: choose another name, or remove it", name); };
  std::error_code error;
  if (fs::exists(fs::symlink_status(folder, error))) refuse();

  const Begun begun{fs::path(parent) / fmt::format(".{}.{}.tmp", name, ::getpid())};
  fs::create_directories(begun.path / "test", error);
  if (error) user_error("cannot make the folder {}: {}", name, error.message());
  for (const auto& [file, text] : files) write_file_atomically((begun.path / file).string(), text);
  // mkdir takes the name, or finds it taken. rename replaces only an empty folder. Both are atomic on every
  // file system, while some do not have renameat2's RENAME_NOREPLACE.
  if (::mkdir(folder.c_str(), 0777) != 0) {
    if (errno == EEXIST) refuse();
    user_error("cannot make the folder {}: {}", name, std::generic_category().message(errno));
  }
  if (::rename(begun.path.c_str(), folder.c_str()) != 0) {
    const int reason = errno;
    ::rmdir(folder.c_str());  // ours, unless somebody has put something there meanwhile
    if (reason == ENOTEMPTY || reason == EEXIST) refuse();
    user_error("cannot make the folder {}: {}", name, std::generic_category().message(reason));
  }
}

}  // namespace rewire::runtime
