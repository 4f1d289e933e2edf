// Tile kernels that read along one axis and write along another, for tests of how they are printed: the usual
// ones, and random ones from a seed.
#pragma once

#include <cstdint>

#include "codegen/tile/tile.h"

namespace rewire::test {

/// y[b, r, c] = x[b, c, r].
codegen::tile::Kernel transposed(std::int64_t rows, std::int64_t columns, ir::DType from = ir::DType::f32,
                                 ir::DType to = ir::DType::f32, std::int64_t batch = 1);

/// Images of 3 channels, normalised by channel, in patches: y[b, i, j, c, k, l] =
/// (x[b, c, patch i + k, patch j + l] - mean[c]) scale[c].
codegen::tile::Kernel patches(std::int64_t images, std::int64_t down, std::int64_t across, std::int64_t patch,
                              ir::DType to = ir::DType::f32);

/// Two to four axes, each access with an order of its own: loads of every dtype, some gathered as padding
/// does it, pointwise ops, one store or two, in place or behind a predicate at times. Some 4000 points.
codegen::tile::Kernel random_transposing_kernel(std::uint64_t seed);

}  // namespace rewire::test
