#include "tests/support/program_fuzz.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "ir/evaluate.h"
#include "ir/text.h"
#include "tests/support/slice.h"

namespace rewire::testing {

FuzzCase fuzz_case(std::uint64_t seed) {
  ProgramOptions options;
  options.gradients = seed % 2 == 1;
  options.max_steps = 8;
  FuzzCase result;
  result.seed = seed;
  result.program = random_program(seed, options);
  const ir::Module& module = result.program.module;
  result.final_state = result.program.state;
  result.expected = ir::evaluate(module, module.function("main"), result.program.inputs, result.final_state);
  result.ill_conditioned =
      !first_difference(result.expected, evaluate_rounded(result.program), kFuzzTolerance).empty();
  return result;
}

FuzzRange fuzz_range(int argc, char** argv) {
  FuzzRange range;
  if (argc > 1) range.first = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) range.count = std::strtoull(argv[2], nullptr, 10);
  if (argc > 3 && std::string_view(argv[3]) == "sliced") {
    const Slice::Range part = slice().part(range.first, range.count);
    range = {part.first, part.count};
  }
  return range;
}

void FuzzReport::fail(std::uint64_t seed, const std::string& fault) {
  ++failures_;
  std::printf("seed %llu: %s; `%s %llu 1` repeats it\n", static_cast<unsigned long long>(seed), fault.c_str(),
              program_invocation_short_name, static_cast<unsigned long long>(seed));
  if (range_.count == 1) std::printf("%s", ir::print(fuzz_case(seed).program.module).c_str());
}

int FuzzReport::finish() const {
  std::printf("%llu programs, %d skipped as ill-conditioned, %d failures\n",
              static_cast<unsigned long long>(range_.count), skipped_, failures_);
  // A fuzz that skips much checks little.
  return failures_ == 0 && skipped_ * 10 <= static_cast<int>(range_.count) + 9 ? 0 : 1;
}

}  // namespace rewire::testing
