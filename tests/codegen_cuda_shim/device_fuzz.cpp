// Differential fuzz: random programs on the evaluator and, as CUDA text, on the fake device, fused and one
// kernel an op; the fused ones again with their threads in a random order, which must give the same bits.
// `device_fuzz FIRST COUNT`. A difference prints the seed, and the exit code is 1.
#include <algorithm>
#include <cstdio>
#include <exception>

#include "tests/cuda_shim/device_cases.h"
#include "tests/support/program_fuzz.h"

using namespace rewire;

namespace {

constexpr std::uint64_t kBatch = 50;  // programs whose kernels are compiled together

struct Prepared {
  testing::FuzzCase fuzz;
  std::size_t fused = 0, apart = 0;  // numbers of the cases
};

std::string compare(const testing::FuzzCase& fuzz, const cuda_shim::CaseRun& run) {
  std::vector<ir::Tensor> results;
  for (const ir::Argument& result : fuzz.program.module.function("main").results)
    results.push_back(runtime::to_double(run.results.at(result.name)));
  std::string difference = testing::first_difference(fuzz.expected, results, testing::kFuzzTolerance);
  if (!difference.empty()) return difference;
  for (const auto& [name, expected] : fuzz.final_state.tensors) {
    difference = testing::first_difference({expected}, {runtime::to_double(run.state.at(name))},
                                           testing::kFuzzTolerance);
    if (!difference.empty()) return "state " + name + ": " + difference;
  }
  return {};
}

std::string check(const cuda_shim::DeviceCases& cases, const Prepared& prepared) {
  const cuda_shim::CaseRun fused = cases.run(prepared.fused);
  std::string difference = compare(prepared.fuzz, fused);
  if (!difference.empty()) return "fused: " + difference;
  difference = compare(prepared.fuzz, cases.run(prepared.apart));
  if (!difference.empty()) return "one kernel an op: " + difference;
  for (const std::uint64_t order : {2 * prepared.fuzz.seed, 2 * prepared.fuzz.seed + 1}) {
    for (const std::string& name :
         differing(fused, cases.run(prepared.fused, cuda_shim::order_of_seed(order))))
      difference += " " + name;
  }
  return difference.empty() ? "" : "another order of threads changes" + difference;
}

/// Calls `work` and reports what it returns or throws.
template <class Work>
bool attempt(testing::FuzzReport& report, std::uint64_t seed, Work work) {
  std::string fault;
  try {
    fault = work();
  } catch (const std::exception& error) {
    fault = std::string("threw: ") + error.what();
  }
  if (!fault.empty()) report.fail(seed, fault);
  return fault.empty();
}

/// Returns the number of kernels.
int run_batch(std::uint64_t first, std::uint64_t end, testing::FuzzReport& report) {
  cuda_shim::DeviceCases cases;
  std::vector<Prepared> batch;
  for (std::uint64_t seed = first; seed < end; ++seed) {
    Prepared prepared;
    const bool ready = attempt(report, seed, [&] {
      prepared.fuzz = testing::fuzz_case(seed);
      const testing::RandomProgram& program = prepared.fuzz.program;
      if (prepared.fuzz.ill_conditioned) {
        report.skip();
      } else {
        prepared.fused = cases.add(program.module, program.inputs, program.state, true);
        prepared.apart = cases.add(program.module, program.inputs, program.state, false);
      }
      return std::string();
    });
    if (ready && !prepared.fuzz.ill_conditioned) batch.push_back(std::move(prepared));
  }
  const auto compile = [&] {
    cases.compile();
    return std::string();
  };
  if (!attempt(report, first, compile)) return 0;
  for (const Prepared& prepared : batch)
    attempt(report, prepared.fuzz.seed, [&] { return check(cases, prepared); });
  return cases.report().kernels;
}

}  // namespace

int main(int argc, char** argv) {
  const testing::FuzzRange range = testing::fuzz_range(argc, argv);
  testing::FuzzReport report(range);
  int kernels = 0;
  for (std::uint64_t done = 0; done < range.count; done += kBatch)
    kernels += run_batch(range.first + done, range.first + std::min(done + kBatch, range.count), report);
  std::printf("%d kernels\n", kernels);
  return report.finish();
}
