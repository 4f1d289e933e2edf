// Lowers Fourier transforms of real rows as PassContext::fourier says; those without elements stay ops. With
// a = 2 pi k s / n and w_k = 2 for bins that also represent bin n - k, else 1:
//
//   product   rfft(x)  = x F    F[s, k] = cos a            F[s, bins + k] = -sin a
//             irfft(y) = y G    G[k, s] = w_k cos a / n    G[bins + k, s] = -w_k sin a / n, 0 if bin k
//                                                                            represents itself alone
//   pairs     rfft(x)  = rfft_pairs(x), transposed to [2, bins]
//             irfft(y) = irfft_pairs(y m transposed to [bins, 2])    m = 1 / n, 0 for those imaginary parts
//
// The transpositions and m fuse into neighbouring kernels, so they add no pass over memory.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void lower_fourier(Module& module, PassContext& context);

}  // namespace rewire::ir
