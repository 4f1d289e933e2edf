// Differential fuzz: random programs on the evaluator and on the compiling engine, fused and one kernel an
// op. `jit_fuzz FIRST COUNT`; every odd program is a loss with its gradients. A difference prints the seed
// and the program, and the exit code is 1.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "ir/evaluate.h"
#include "ir/text.h"
#include "tests/runtime_jit/jit_check.h"
#include "tests/support/random_program.h"

using namespace rewire;

namespace {

// f32 arithmetic over programs of up to two hundred ops; ill-conditioned ones are given what rounding alone
// does to them.
constexpr double kTolerance = 2e-5;

std::string check(std::uint64_t seed, int& skipped) {
  testing::ProgramOptions options;
  options.gradients = seed % 2 == 1;
  options.max_steps = 8;
  const testing::RandomProgram program = testing::random_program(seed, options);
  ir::EvalState state = program.state;
  const auto expected = ir::evaluate(program.module, program.module.function("main"), program.inputs, state);
  // Where rounding the intermediate values alone moves the result this far, the comparison has no meaning.
  if (!testing::first_difference(expected, testing::evaluate_rounded(program), kTolerance).empty()) {
    ++skipped;
    return {};
  }
  for (bool fuse : {true, false}) {
    const auto run =
        testing::run_jit(program.module, program.inputs, program.state, fuse, 1 + static_cast<int>(seed % 2));
    const std::string difference = testing::first_difference(expected, run.results, kTolerance);
    if (!difference.empty()) return std::string(fuse ? "fused: " : "one kernel an op: ") + difference;
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t first = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const std::uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 100;
  int failures = 0, skipped = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    std::string fault;
    try {
      fault = check(seed, skipped);
    } catch (const std::exception& error) {
      fault = std::string("threw: ") + error.what();
    }
    if (fault.empty()) continue;
    ++failures;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), fault.c_str());
    if (count == 1) {
      testing::ProgramOptions options;
      options.gradients = seed % 2 == 1;
      options.max_steps = 8;
      std::printf("%s", ir::print(testing::random_program(seed, options).module).c_str());
    }
  }
  std::printf("%llu programs, %d skipped as ill-conditioned, %d failures\n",
              static_cast<unsigned long long>(count), skipped, failures);
  // A fuzz that skips much checks little.
  return failures == 0 && skipped * 10 <= static_cast<int>(count) + 9 ? 0 : 1;
}
