// bench --ranks: how fast the processes of a run add their gradients.
#pragma once

namespace rewire::cli {

/// Times sums over the processes that mpirun has started, `runs` for each size. Rank 0 prints them.
void bench_ranks(int runs, bool json);

}  // namespace rewire::cli
