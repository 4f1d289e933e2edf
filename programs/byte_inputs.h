// Inputs that reach a program as bytes, a quarter of the floats that the program computes with.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::programs {

/// An input of u8 [..., channels, height, width], and the floats that its bytes mean: [channels, 256].
struct ByteInput {
  std::string name;
  std::vector<float> values;
};

/// Makes the function take this argument, f32 [..., channels, height, width], as u8. Each float is looked up in `values`,
/// so it has the same bits as on the host. A function without the argument stays as it is.
void take_bytes(ir::Module& module, ir::Function& function, const ByteInput& input);

}  // namespace rewire::programs
