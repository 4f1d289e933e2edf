// What a network costs, as papers print it.
#pragma once

#include <cstdint>
#include <string>

#include "ir/module.h"

namespace rewire::cli {

struct ModelCost {
  std::string image;        // "28x28x1": height, width, channels
  std::int64_t parameters;  // numbers that are trained
  double gmacs;             // multiply-adds of one image, 1e9 (ir::multiply_adds)
};

/// Of a module with `forward` of one image.
ModelCost cost_of(const ir::Module& module);

}  // namespace rewire::cli
