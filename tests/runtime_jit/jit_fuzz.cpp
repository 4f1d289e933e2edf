// Differential fuzz: random programs on the evaluator and on the compiling engine, fused, one kernel an op,
// half of them in mixed precision too, and where launches became tables also without these, to the same bits.
// `jit_fuzz FIRST COUNT`. A difference prints the seed, and the exit code is 1.
#include <cstdio>
#include <cstring>
#include <exception>

#include "tests/runtime_jit/jit_check.h"
#include "tests/support/narrow_fuzz.h"
#include "tests/support/program_fuzz.h"

using namespace rewire;

namespace {

struct Counts {
  int narrow = 0, tables = 0;
};

bool same_bits(const ir::Tensor& a, const ir::Tensor& b) {
  return a.data.size() == b.data.size() &&
         (a.data.empty() || std::memcmp(a.data.data(), b.data.data(), a.data.size() * sizeof(double)) == 0);
}

/// A launch for every kernel, where `run` had fewer launches than that.
std::string check_tables(const testing::FuzzCase& fuzz, const testing::JitRun& run, int threads,
                         Counts& counts) {
  const testing::RandomProgram& program = fuzz.program;
  const auto apart = testing::run_jit(program.module, program.inputs, program.state, false, threads, false);
  if (apart.report.kernels == run.report.kernels) return {};
  ++counts.tables;
  for (std::size_t i = 0; i < run.results.size(); ++i) {
    if (!same_bits(run.results[i], apart.results[i])) return "tables change the bits of a result";
  }
  for (const auto& [name, tensor] : run.state) {
    if (!same_bits(tensor, apart.state.at(name))) return "tables change the bits of " + name;
  }
  return {};
}

std::string check(const testing::FuzzCase& fuzz, Counts& counts) {
  const testing::RandomProgram& program = fuzz.program;
  const int threads = 1 + static_cast<int>(fuzz.seed % 2);
  for (bool fuse : {true, false}) {
    const auto run = testing::run_jit(program.module, program.inputs, program.state, fuse, threads);
    const std::string difference =
        testing::first_difference(fuzz.expected, run.results, testing::kFuzzTolerance);
    if (!difference.empty()) return std::string(fuse ? "fused: " : "one kernel an op: ") + difference;
    if (fuse || fuzz.seed % 8 > 1) continue;
    const std::string fault = check_tables(fuzz, run, threads, counts);
    if (!fault.empty()) return fault;
  }
  if (fuzz.seed % 4 >= 2) return {};  // half of those with gradients, half of those without
  const auto narrow = testing::narrow_case(fuzz);
  if (!narrow) return {};
  ++counts.narrow;
  const auto run = testing::run_jit(narrow->program.module, program.inputs, program.state, true);
  return testing::narrow_difference(fuzz, *narrow, run.results);
}

}  // namespace

int main(int argc, char** argv) {
  const testing::FuzzRange range = testing::fuzz_range(argc, argv);
  testing::FuzzReport report(range);
  Counts counts;
  for (std::uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    std::string fault;
    try {
      const testing::FuzzCase fuzz = testing::fuzz_case(seed);
      if (fuzz.ill_conditioned) {
        report.skip();
      } else {
        fault = check(fuzz, counts);
      }
    } catch (const std::exception& error) {
      fault = std::string("threw: ") + error.what();
    }
    if (!fault.empty()) report.fail(seed, fault);
  }
  std::printf("%d in mixed precision too, %d without their tables\n", counts.narrow, counts.tables);
  const int code = report.finish();
  return range.count >= 40 && (counts.narrow == 0 || counts.tables == 0) ? 1
                                                                         : code;  // then it checked nothing
}
