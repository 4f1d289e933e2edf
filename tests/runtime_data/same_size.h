// Transforms of images that have the network's size already.
#pragma once

#include "runtime/data/vision/transform.h"

namespace rewire::runtime {

inline TransformContext same_size(const ir::Shape& shape, bool training = true) {
  return {shape, shape, training};
}

inline void apply(const TransformChain& chain, const std::vector<std::uint8_t>& pixels,
                  const ir::Shape& shape, std::span<float> out, std::int64_t epoch = 0,
                  std::int64_t sample = 0) {
  chain.apply({pixels, shape[1], shape[2]}, out, epoch, sample);
}

}  // namespace rewire::runtime
