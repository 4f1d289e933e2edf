// Rows by index: gather, scatter_add and sort over odd sizes, several axes, one list of indices and a list
// for each place, with ties, repeated and outside indices, NaN and infinities; and a step as a masked
// autoencoder's.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"

namespace rewire::testing {

/// Function "main" of the inputs, in order. Sums are of few multiples of 1/8, exact in f32: a backend's
/// results are the evaluator's, but of a case with a tolerance, relative to each result's largest magnitude.
struct IndexedCase {
  std::string name;
  ir::Module module;
  std::vector<ir::Tensor> inputs;
  double tolerance = 0;
};

std::vector<IndexedCase> indexed_cases();

/// What differs from the evaluator's results, by name; empty: nothing.
std::string indexed_difference(const IndexedCase& indexed, const std::vector<ir::Tensor>& results);

}  // namespace rewire::testing
