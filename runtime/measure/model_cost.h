// The cost of a network, as papers print it.
#pragma once

#include <cstdint>
#include <string>

#include "ir/module.h"

namespace rewire::runtime {

struct ModelCost {
  std::string input;        // "28x28x1": height, width, channels; or "256 tokens"
  std::int64_t parameters;  // elements of the trained weights
  double gmacs;             // multiply-adds per sample, in 1e9 (ir::multiply_adds)
};

/// Returns the cost of a module with `forward` of one sample.
ModelCost cost_of(const ir::Module& module);

}  // namespace rewire::runtime
