// Differential fuzz: random programs on the evaluator and on the compiling engine, fused, one kernel an op,
// and half of them in mixed precision too. `jit_fuzz FIRST COUNT`. A difference prints the seed, and the exit
// code is 1.
#include <cstdio>
#include <exception>

#include "tests/runtime_jit/jit_check.h"
#include "tests/support/narrow_fuzz.h"
#include "tests/support/program_fuzz.h"

using namespace rewire;

namespace {

std::string check(const testing::FuzzCase& fuzz, int& narrow_cases) {
  const testing::RandomProgram& program = fuzz.program;
  for (bool fuse : {true, false}) {
    const auto run = testing::run_jit(program.module, program.inputs, program.state, fuse,
                                      1 + static_cast<int>(fuzz.seed % 2));
    const std::string difference =
        testing::first_difference(fuzz.expected, run.results, testing::kFuzzTolerance);
    if (!difference.empty()) return std::string(fuse ? "fused: " : "one kernel an op: ") + difference;
  }
  if (fuzz.seed % 4 >= 2) return {};  // half of those with gradients, half of those without
  const auto narrow = testing::narrow_case(fuzz);
  if (!narrow) return {};
  ++narrow_cases;
  const auto run = testing::run_jit(narrow->program.module, program.inputs, program.state, true);
  return testing::narrow_difference(fuzz, *narrow, run.results);
}

}  // namespace

int main(int argc, char** argv) {
  const testing::FuzzRange range = testing::fuzz_range(argc, argv);
  testing::FuzzReport report(range);
  int narrow_cases = 0;
  for (std::uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    std::string fault;
    try {
      const testing::FuzzCase fuzz = testing::fuzz_case(seed);
      if (fuzz.ill_conditioned) {
        report.skip();
      } else {
        fault = check(fuzz, narrow_cases);
      }
    } catch (const std::exception& error) {
      fault = std::string("threw: ") + error.what();
    }
    if (!fault.empty()) report.fail(seed, fault);
  }
  std::printf("%d in mixed precision too\n", narrow_cases);
  const int code = report.finish();
  return range.count >= 40 && narrow_cases == 0 ? 1 : code;  // then it checked nothing
}
