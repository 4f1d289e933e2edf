// cuFFT's functions, types and numbers, declared from its documentation: only for cufft.cpp.
#pragma once

#include <cstddef>
#include <string>

#include "codegen/cuda/shared_library.h"

namespace rewire::codegen::cufft {

using Plan = int;    // cufftHandle
using Result = int;  // cufftResult; 0: success
using Integer = long long;

enum Type : int { kR2C = 0x2a, kC2R = 0x2c, kD2Z = 0x6a, kZ2D = 0x6c };  // cufftType

struct Functions {
  cuda::SharedLibrary file{cuda::kCufft};

  Result (*version)(int*);
  Result (*create)(Plan*);
  Result (*destroy)(Plan);
  Result (*set_allocation)(Plan, int automatic);
  Result (*make)(Plan, int rank, Integer* lengths, Integer* input_embedding, Integer input_stride,
                 Integer input_distance, Integer* output_embedding, Integer output_stride,
                 Integer output_distance, int type, Integer batch, std::size_t* work_bytes);
  Result (*set_work)(Plan, void*);
  Result (*set_stream)(Plan, void* stream);
  Result (*r2c)(Plan, float* real, void* complex);
  Result (*c2r)(Plan, void* complex, float* real);
  Result (*d2z)(Plan, double* real, void* complex);
  Result (*z2d)(Plan, void* complex, double* real);

  Functions();
};

using Library = cuda::Loaded<Functions>;

/// Returns "CUFFT_INVALID_SIZE"; the number if it has no name here.
std::string words(Result result);
/// Throws RuntimeFailure that names a failed call and its purpose.
void check(Result result, const char* call, const std::string& what);
/// Returns whether cuFFT has no such transform.
bool is_refusal(Result result);

}  // namespace rewire::codegen::cufft
