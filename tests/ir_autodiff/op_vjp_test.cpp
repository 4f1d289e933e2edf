// Every VJP of the op table against differences, on random cases.
#include <string>

#include "ir/ops/functions.h"
#include "ir/ops/op_info.h"
#include "tests/ir_autodiff/gradient_check.h"
#include "tests/support/catch.h"
#include "tests/support/op_cases.h"

namespace rewire::ir {
namespace {

constexpr std::uint64_t kSeeds = 24;
/// Elements of each argument that are differenced: two evaluations each.
constexpr std::size_t kElements = 40;

/// How many arguments of the case were compared.
std::size_t check_case(const OpInfo& info, std::uint64_t seed) {
  const rewire::testing::OpCase op_case = rewire::testing::random_op_case(info.code, seed);
  std::size_t compared = 0;
  for (const testing::ArgumentGradient& gradient :
       testing::compare_gradients(op_case.module, "main", op_case.inputs, op_case.state, seed, kElements)) {
    if (!op_case.differentiable[gradient.index]) continue;
    CAPTURE(std::string(info.name), seed, gradient.argument);
    CHECK(gradient.relative_error() < 1e-6);
    ++compared;
  }
  return compared;
}

TEST_CASE("every VJP of the op table agrees with differences") {
  for (const OpInfo& info : op_table()) {
    if (info.vjp == nullptr || info.vjp == vjp_undefined) continue;
    CAPTURE(std::string(info.name));
    std::size_t compared = 0;
    // Some cases have nothing to differentiate, such as a cast to an integer: on until enough had.
    for (std::uint64_t seed = 1; seed <= kSeeds || (compared < kSeeds && seed <= 10 * kSeeds); ++seed)
      compared += check_case(info, seed);
    CHECK(compared >= kSeeds);
  }
}

}  // namespace
}  // namespace rewire::ir
