// Fourier transforms of real rows become matrix products with constants, for a backend whose matrix units
// outrun its transforms: rows of n <= 1024, where PassContext::fourier_products asks for it. With
// a = 2 pi k s / n and w_k = 2 for the bins that stand for bin n - k as well, else 1:
//
//   rfft(x)  = x F    F[s, k] = cos a        F[s, bins + k] = -sin a
//   irfft(y) = y G    G[k, s] = w_k cos a / n   G[bins + k, s] = -w_k sin a / n, 0 where bin k stands alone
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void fourier_products(Module& module, PassContext& context);

}  // namespace rewire::ir
