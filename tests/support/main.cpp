// The tests' main, compiled once and linked into every test program. What a test finds is the build's: never
// the kernels, choices and plugins that whoever runs it has at home.
#include <stdlib.h>

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include "tests/support/build_folder.h"

int main(int argc, char** argv) {
  const std::filesystem::path home = rewire::testing::build_folder() / REWIRE_TEST_HOME;
  ::setenv("XDG_CACHE_HOME", (home / "cache").c_str(), 1);
  ::setenv("XDG_DATA_HOME", (home / "data").c_str(), 1);
  ::unsetenv("REWIRE_PLUGIN_PATH");
  return Catch::Session().run(argc, argv);
}
