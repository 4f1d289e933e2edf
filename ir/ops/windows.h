// The attributes of the ops over windows, and where bilinear interpolation reads.
#pragma once

#include <cstdint>

#include "ir/attribute.h"

namespace rewire::ir {

/// The attribute padding; [] is [0, 0].
Ints window_padding(const Attributes& attributes);

/// Between which inputs an output of bilinear interpolation lies, and how far: first and second share it by
/// 1 - share and share.
struct BilinearSource {
  std::int64_t first = 0, second = 0;
  double share = 0;
};
/// Of output o, pixels as squares (PyTorch's align_corners=False): s = (o + 1/2) in / out - 1/2 within [0, in - 1].
BilinearSource bilinear_source(std::int64_t o, std::int64_t in, std::int64_t out);

}  // namespace rewire::ir
