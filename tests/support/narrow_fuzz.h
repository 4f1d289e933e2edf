// The fuzzers' programs in mixed precision: what a backend may differ by is measured on the evaluator.
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

/// Nothing where the comparison has no meaning: no product; an op that jumps (compare, floor, argmax, sort, a
/// cast to an integer), where a rounding anywhere gives another number altogether; or results that rounding
/// alone moves by more than a tenth.
std::optional<NarrowCase> narrow_case(const FuzzCase& fuzz);

/// What differs by more than the case allows; empty if nothing does.
std::string narrow_difference(const FuzzCase& fuzz, const NarrowCase& narrow,
                              const std::vector<ir::Tensor>& actual);

}  // namespace rewire::testing
