// The fuzzers' programs in mixed precision. The error allowed for a backend is measured on the evaluator.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/support/program_fuzz.h"

namespace rewire::testing {

/// The case's program with its products in bf16.
struct NarrowCase {
  RandomProgram program;
  double allowed = 0;  // of scaled_error, for each result
};

/// Returns nothing if a comparison has no meaning: there is no product; an op jumps (compare, floor, argmax,
/// sort, max, a cast to an integer), so that a rounding anywhere gives an unrelated number; or rounding
/// alone moves results by more than a tenth.
std::optional<NarrowCase> narrow_case(const FuzzCase& fuzz);

/// Returns what differs by more than the case allows; "" if nothing does.
std::string narrow_difference(const FuzzCase& fuzz, const NarrowCase& narrow,
                              const std::vector<ir::Tensor>& actual);

}  // namespace rewire::testing
