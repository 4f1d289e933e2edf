// The tests' main, compiled once and linked into every test program. What a test finds is the build's: never
// the kernels, choices and plugins that whoever runs it has at home.
#include <stdlib.h>

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

int main(int argc, char** argv) {
  ::setenv("XDG_CACHE_HOME", REWIRE_TEST_CACHE_HOME, 1);
  ::setenv("XDG_DATA_HOME", REWIRE_TEST_DATA_HOME, 1);
  ::unsetenv("REWIRE_PLUGIN_PATH");
  return Catch::Session().run(argc, argv);
}
