// Common parts of all backends' differential fuzzers: cases from seeds, the evaluator's results, and the
// report. `NAME FIRST COUNT` runs a range of seeds, `NAME FIRST COUNT sliced` a slice of it (slice.h); every
// odd program is a loss with its gradients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/random_program.h"

namespace rewire::testing {

// For f32 arithmetic in programs of up to two hundred ops; an ill-conditioned program is allowed the effect
// of rounding alone.
inline constexpr double kFuzzTolerance = 2e-5;

struct FuzzCase {
  std::uint64_t seed = 0;
  RandomProgram program;
  std::vector<ir::Tensor> expected;
  ir::EvalState final_state;
  /// Rounding the intermediate values alone moves the result beyond the tolerance, so a comparison has no
  /// meaning.
  bool ill_conditioned = false;
};
FuzzCase fuzz_case(std::uint64_t seed);

struct FuzzRange {
  std::uint64_t first = 1, count = 100;
};
FuzzRange fuzz_range(int argc, char** argv);

/// Counts and prints. A range of one seed prints its program too.
class FuzzReport {
 public:
  explicit FuzzReport(FuzzRange range) : range_(range) {}
  void skip() { ++skipped_; }
  void fail(std::uint64_t seed, const std::string& fault);
  /// Prints the sum and returns the exit code: 1 after a failure, or if many cases were skipped.
  int finish() const;

 private:
  FuzzRange range_;
  int skipped_ = 0, failures_ = 0;
};

}  // namespace rewire::testing
