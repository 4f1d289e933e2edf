// What the machine under an engine reaches at best: what the times of kernels are held against.
#pragma once

#include <optional>
#include <string_view>

#include "ir/types.h"

namespace rewire::runtime {

struct Ceilings {
  double bytes_per_second = 0;  // read and written, by a kernel y = x + 1 over the largest tensors tried
  /// On a CPU what its multiply-adds of f32 reach in registers; on a GPU, and where bf16 is faster than that, the most of
  /// those products of two square matrices that were tried.
  double flops_per_second = 0;
  bool in_registers = false;  // the former
  /// How many CPUs other programs kept busy meanwhile, where that is so much that a CPU's ceilings may be too low.
  std::optional<double> load = {};
};

/// Compiles and times them now, on an engine that compiles, each the best of a few runs; operands of products
/// are of this dtype, f32 perhaps by TF32. Sizes grow up to tensors of 256 MiB, beyond every cache, and
/// matrices of 4096 x 4096, as long as a run can be expected to take a tenth of a second at most. Products
/// are computed as an engine does that was given no choices: on a GPU another algorithm may be faster. Load is told
/// by a warning too.
Ceilings measure_ceilings(std::string_view engine, ir::DType products, bool tf32, int threads = 0);

}  // namespace rewire::runtime
