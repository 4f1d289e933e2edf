// rewire bench --variants: several variants of a network, timed in turn by one process.
#pragma once

#include "cli/bench_network.h"

namespace rewire::cli {

/// Compiles the variants of request.variants, compares their results, times them interleaved and prints a line
/// for each. Throws UserError if they do not have the same batch.
void bench_variants(const BenchRequest& request);

}  // namespace rewire::cli
