// What the machine under an engine reaches at best: what the times of kernels are held against.
#pragma once

#include <string_view>

#include "ir/types.h"

namespace rewire::runtime {

struct Ceilings {
  double bytes_per_second = 0;  // read and written, by a kernel y = x + 1 over tensors beyond every cache
  double flops_per_second = 0;  // of the library's best product of two square matrices
};

/// Compiles and times them now, on an engine that compiles; operands of products are of this dtype. Sizes
/// grow until a run takes long enough to be timed: a slow machine is not kept busy.
Ceilings measure_ceilings(std::string_view engine, ir::DType products, int threads = 0);

}  // namespace rewire::runtime
