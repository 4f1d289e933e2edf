// What an op costs beside the memory it moves: what decides between computing again and storing, and what
// papers print as a model's cost.
#pragma once

#include <cstdint>

#include "ir/module.h"
#include "ir/opcode.h"

namespace rewire::ir {

/// Floating-point operations an element of the result, roughly, as a vectorised kernel does them: 0 for what
/// only moves elements along, 1 for add, 20 for exp.
std::int64_t flops_per_element(Opcode code);

/// Multiply-adds of a function as papers count them ("FLOPs", GMACs): those of matrix products, of the two
/// products of attention, and of circulant products by transforms; nothing else. A circulant product with p
/// output slices, q input slices and n lags counts 2 p n log2 n + 2 p q n a row, whatever it is lowered to:
/// every output slice with a transform there and one back, and its share of the spectra's products (Tang et
/// al., Augmented Shortcuts, tables 3 to 5).
double multiply_adds(const Function& function);

}  // namespace rewire::ir
