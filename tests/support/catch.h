// Includes Catch2 in both of Debian's versions: 2 (Debian 12) and 3 (Debian 13). Tests include no other file
// of Catch2.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#define REWIRE_CATCH_CONTAINS(text) Catch::Matchers::ContainsSubstring(text)
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#define REWIRE_CATCH_CONTAINS(text) Catch::Matchers::Contains(text)
#endif
