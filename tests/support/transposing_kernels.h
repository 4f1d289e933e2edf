// Tile kernels that read along one axis and write along another, for tests of the printers: the usual ones,
// and random ones from a seed.
#pragma once

#include <cstdint>

#include "codegen/tile/tile.h"

namespace rewire::test {

/// y[b, r, c] = x[b, c, r].
codegen::tile::Kernel transposed(std::int64_t rows, std::int64_t columns, ir::DType from = ir::DType::f32,
                                 ir::DType to = ir::DType::f32, std::int64_t batch = 1);

/// Images of 3 channels, normalised by channel, in patches:
/// y[b, i, j, c, k, l] = (x[b, c, patch i + k, patch j + l] - mean[c]) scale[c].
codegen::tile::Kernel patches(std::int64_t images, std::int64_t down, std::int64_t across, std::int64_t patch,
                              ir::DType to = ir::DType::f32);

/// Returns a kernel with two to four axes and its own order for each access: loads of every dtype, some
/// gathered as for padding, pointwise ops, and one or two stores, sometimes in place or with a predicate. It
/// has about 4000 points.
codegen::tile::Kernel random_transposing_kernel(std::uint64_t seed);

}  // namespace rewire::test
