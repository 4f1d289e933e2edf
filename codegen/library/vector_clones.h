// Compiles a loop in one version for each kind of vector unit; the version is picked when the program
// starts.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define REWIRE_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
// For loops of floats, versions that round alike: for AVX-512, compilers fuse products and sums.
#define REWIRE_FLOAT_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define REWIRE_VECTOR_CLONES
#define REWIRE_FLOAT_CLONES
#endif
