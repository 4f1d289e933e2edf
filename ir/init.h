// Checks that an initialisation suits a tensor: every number that it can draw fits the tensor's dtype.
#pragma once

#include <string>

#include "ir/module.h"

namespace rewire::ir {

/// Returns "" if `init` fits a parameter of this type, else the fault: a number that is not finite, a
/// negative deviation, a cut that is not above 0, low above high, draws that overflow the dtype,
/// xavier_uniform, orthonormal or a sinusoid with fewer than two axes, sinusoid_2d without a square grid, or
/// a count of values other than the elements'. A cut may be infinite.
std::string init_fault(const Init& init, const TensorType& type);

}  // namespace rewire::ir
