// The best rates of the machine under an engine, a roofline for the times of kernels.
#pragma once

#include <optional>
#include <string_view>

#include "ir/types.h"

namespace rewire::runtime {

struct Ceilings {
  double bytes_per_second = 0;  // read and written, by a kernel y = x + 1 over the largest tensors tried
  /// On a CPU, the rate of f32 multiply-adds in registers. On a GPU, and if bf16 is faster than that, the
  /// best of the products of two square matrices that were tried.
  double flops_per_second = 0;
  bool in_registers = false;  // the register rate is the higher one
  /// The CPUs that other programs kept busy meanwhile, if so many that a CPU's ceilings may be too low.
  std::optional<double> load = {};
};

/// Compiles and times the ceilings now, on an engine that compiles, each the best of a few runs. Operands of
/// products have the dtype `products`, f32 perhaps by TF32. Sizes grow up to tensors of 256 MiB, beyond
/// every cache, and matrices of 4096 x 4096, while a run is expected to take a tenth of a second at most.
/// Products use no recorded choices: on a GPU another algorithm may be faster. Logs a warning about load.
Ceilings measure_ceilings(std::string_view engine, ir::DType products, bool tf32, int threads = 0);

}  // namespace rewire::runtime
