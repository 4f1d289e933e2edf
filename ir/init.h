// Which initialisations make sense of a tensor: all that one can draw is a number of the tensor's dtype.
#pragma once

#include <string>

#include "ir/module.h"

namespace rewire::ir {

/// "" if `init` fits a parameter of this type; else what is wrong: a number that is not finite, a negative
/// deviation, a cut that is not above 0, low above high, draws that overflow the dtype, xavier_uniform, orthonormal or a
/// sinusoid of fewer than two axes, sinusoid_2d of no square grid, other than one value an element. A cut may be
/// infinite.
std::string init_fault(const Init& init, const TensorType& type);

}  // namespace rewire::ir
