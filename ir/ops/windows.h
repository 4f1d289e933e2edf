// The attributes of the ops over windows, and the sampling points of bilinear interpolation.
#pragma once

#include <cstdint>

#include "ir/attribute.h"

namespace rewire::ir {

/// Returns the attribute padding; [] is [0, 0].
Ints window_padding(const Attributes& attributes);

/// The two inputs of an output of bilinear interpolation, with weights 1 - share (first) and share (second).
struct BilinearSource {
  std::int64_t first = 0, second = 0;
  double share = 0;
};
/// Returns the source of output o, with pixels as squares (PyTorch's align_corners=False): s = (o + 1/2) in
/// / out - 1/2, clamped to [0, in - 1].
BilinearSource bilinear_source(std::int64_t o, std::int64_t in, std::int64_t out);

}  // namespace rewire::ir
