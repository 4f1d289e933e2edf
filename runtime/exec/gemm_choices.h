// Which of cuBLASLt's algorithms multiplies each product of a module's programs: chosen once a shape, as a
// tuner chooses, by timing on this device. The key is the product's full name, the answer the algorithm's
// text (codegen/library). An engine takes them from the record.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/exec/tuner.h"

namespace rewire::runtime {

/// Seconds that candidates of all products may run together; what is left then is the heuristic's, with a
/// line in the log.
inline constexpr double kGemmSeconds = 10;

/// For the functions of these names, on device 0, with their Fourier transforms as the tuner has chosen them.
void choose_algorithms(const ir::Module& module, const std::vector<std::string>& functions, Tuner& tuner);

}  // namespace rewire::runtime
