// Cases of gather, scatter_add and sort over odd sizes and several axes, with one list of indices or a list
// for each place. They have ties, repeated and outside indices, NaN and infinities. One case is a step of a
// masked autoencoder.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"

namespace rewire::testing {

/// Function "main" of the inputs, in order. Sums are of few multiples of 1/8, exact in f32, so a backend's
/// results equal the evaluator's. A case with a tolerance is compared relative to each result's largest
/// magnitude.
struct IndexedCase {
  std::string name;
  ir::Module module;
  std::vector<ir::Tensor> inputs;
  double tolerance = 0;
};

std::vector<IndexedCase> indexed_cases();

/// Returns the differences from the evaluator's results, by name; "" if there are none.
std::string indexed_difference(const IndexedCase& indexed, const std::vector<ir::Tensor>& results);

}  // namespace rewire::testing
