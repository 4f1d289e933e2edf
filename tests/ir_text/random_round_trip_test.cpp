// The round trip over what others build: every op's random cases, and random programs with gradients.
#include <string>

#include "ir/error.h"
#include "ir/ops/op_info.h"
#include "ir/text.h"
#include "tests/support/catch.h"
#include "tests/support/op_cases.h"
#include "tests/support/random_program.h"
#include "tests/support/same_module.h"

namespace rewire::ir {
namespace {

void check_round_trip(const Module& module) {
  const std::string text = print(module);
  const Module back = parse(text);
  CHECK(testing::same_module(back, module));
  CHECK(print(back) == text);
}

}  // namespace

TEST_CASE("Every op's cases survive the round trip", "[ir][text]") {
  for (const OpInfo& info : op_table()) {
    REQUIRE(testing::has_op_case(info.code));
    CAPTURE(info.name);
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      CAPTURE(seed);
      check_round_trip(testing::random_op_case(info.code, seed).module);
    }
  }
}

TEST_CASE("Random programs survive the round trip", "[ir][text]") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    testing::ProgramOptions options;
    options.gradients = seed % 2 == 1;
    check_round_trip(testing::random_program(seed, options).module);
  }
}

TEST_CASE("A text cut or changed anywhere is parsed or refused, never worse", "[ir][text]") {
  const std::string text = print(testing::random_program(5).module);
  const auto try_text = [](const std::string& damaged) {
    try {
      const Module module = parse(damaged);
      CHECK(print(parse(print(module))) == print(module));
    } catch (const UserError&) {
    }
  };
  const std::size_t stride = text.size() / 400 + 1;
  for (std::size_t i = 0; i < text.size(); i += stride) {
    CAPTURE(i);
    try_text(text.substr(0, i));
    try_text(text.substr(0, i) + text.substr(i + 1));
    for (char c : {'0', '9', '-', '"', '%', '}', ',', '\n'}) {
      std::string damaged = text;
      damaged[i] = c;
      try_text(damaged);
    }
  }
}

}  // namespace rewire::ir
