// What a kernel's text sees when it is compiled for the host: CUDA's qualifiers and built-ins, each the twin
// of what the device has, on top of three calls into the runner (launch.cpp): a barrier of the block, an
// exchange among the lanes of a warp, and failure. REWIRE_HOST_SHIM is defined for the prelude, whose
// functions in PTX have their twins here.
//
// It is read before a file of kernels (compile.cpp), which ends with REWIRE_SHIM_KERNEL(symbol) for each kernel. The header
// includes little of the system's, since it is compiled at test time.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>
#include <utility>

#include "tests/cuda_shim/interface.h"

#define REWIRE_HOST_SHIM 1

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

namespace rewire_shim {

/// The thread that runs on this OS thread; the runner sets it at each switch.
static thread_local Thread* current = nullptr;

inline unsigned lane() {
  return current->thread.x % kWarp;
}

template <class T>
inline uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
inline T from_bits(uint64_t bits) {
  T value;
  memcpy(&value, &bits, sizeof(T));
  return value;
}

/// What lane `source` of the mask gave.
template <class T>
inline T shuffle(Place place, unsigned mask, T value, unsigned source) {
  return from_bits<T>(current->runner->exchange(current, place, mask, to_bits(value))[source]);
}

/// Calls a kernel with its arguments out of an array.
template <class... Arguments, size_t... I>
inline void call(void (*kernel)(Arguments...), void* const* arguments, std::index_sequence<I...>) {
  kernel(static_cast<Arguments>(arguments[I])...);
}
template <class... Arguments>
inline void call(void (*kernel)(Arguments...), void* const* arguments) {
  call(kernel, arguments, std::index_sequence_for<Arguments...>{});
}

}  // namespace rewire_shim

/// What the runner finds a kernel by: SYMBOL_on_host, and once a file the thread that runs.
#define REWIRE_SHIM_KERNEL(symbol)                                                                  \
  extern "C" __attribute__((visibility("default"))) void symbol##_on_host(void* const* arguments) { \
    rewire_shim::call(&symbol, arguments);                                                          \
  }
#define REWIRE_SHIM_FILE()                                                                        \
  extern "C" __attribute__((visibility("default"))) rewire_shim::Thread** rewire_shim_current() { \
    return &rewire_shim::current;                                                                 \
  }

#define threadIdx (rewire_shim::current->thread)
#define blockIdx (rewire_shim::current->block)
#define blockDim (rewire_shim::current->threads)
#define gridDim (rewire_shim::current->blocks)

// Where the caller stands, as the last parameters of a built-in.
// clang-format off
#define REWIRE_SHIM_CALLER \
  const char *file = __builtin_FILE(), const char *function = __builtin_FUNCTION(), int line = __builtin_LINE()
// clang-format on
#define REWIRE_SHIM_PLACE(name) (rewire_shim::Place{name, file, function, line})

inline void __syncthreads(REWIRE_SHIM_CALLER) {
  rewire_shim::current->runner->barrier(rewire_shim::current, REWIRE_SHIM_PLACE("__syncthreads"));
}
inline void __syncwarp(unsigned mask = 0xffffffffU, REWIRE_SHIM_CALLER) {
  rewire_shim::current->runner->exchange(rewire_shim::current, REWIRE_SHIM_PLACE("__syncwarp"), mask, 0);
}

// Shuffles: `width` cuts the warp into segments, and a source outside of the own segment gives the own value.
template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, REWIRE_SHIM_CALLER) {
  const unsigned segment = rewire_shim::lane() & ~static_cast<unsigned>(width - 1);
  return rewire_shim::shuffle(REWIRE_SHIM_PLACE("__shfl_sync"), mask, value,
                              segment + (static_cast<unsigned>(source) & static_cast<unsigned>(width - 1)));
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, REWIRE_SHIM_CALLER) {
  const unsigned lane = rewire_shim::lane(), source = lane ^ static_cast<unsigned>(lanes);
  const unsigned end = (lane & ~static_cast<unsigned>(width - 1)) + static_cast<unsigned>(width);
  return rewire_shim::shuffle(REWIRE_SHIM_PLACE("__shfl_xor_sync"), mask, value,
                              source < end ? source : lane);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32, REWIRE_SHIM_CALLER) {
  const unsigned lane = rewire_shim::lane(), source = lane + lanes;
  const unsigned end = (lane & ~static_cast<unsigned>(width - 1)) + static_cast<unsigned>(width);
  return rewire_shim::shuffle(REWIRE_SHIM_PLACE("__shfl_down_sync"), mask, value,
                              source < end ? source : lane);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32, REWIRE_SHIM_CALLER) {
  const unsigned lane = rewire_shim::lane(), segment = lane & ~static_cast<unsigned>(width - 1);
  return rewire_shim::shuffle(REWIRE_SHIM_PLACE("__shfl_up_sync"), mask, value,
                              lane >= segment + lanes ? lane - lanes : lane);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, REWIRE_SHIM_CALLER) {
  const uint64_t* values = rewire_shim::current->runner->exchange(
      rewire_shim::current, REWIRE_SHIM_PLACE("__ballot_sync"), mask, predicate != 0);
  unsigned bits = 0;
  for (unsigned lane = 0; lane < rewire_shim::kWarp; ++lane)
    bits |= (mask >> lane & 1U) != 0 && values[lane] == 1 ? 1U << lane : 0U;
  return bits;
}
inline int __any_sync(unsigned mask, int predicate, REWIRE_SHIM_CALLER) {
  return __ballot_sync(mask, predicate, file, function, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, REWIRE_SHIM_CALLER) {
  return __ballot_sync(mask, predicate == 0, file, function, line) == 0;
}

// Integer atomics, on shared and on device memory. There are none on floats: sums keep their order.
template <class T>
inline T atomicAdd(T* address, std::type_identity_t<T> value) {
  static_assert(std::is_integral_v<T>, "a float atomic would add in any order");
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
template <class T>
inline T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <class T>
inline T atomicExch(T* address, std::type_identity_t<T> value) {
  return __atomic_exchange_n(address, value, __ATOMIC_RELAXED);
}
template <class T>
inline T atomicOr(T* address, std::type_identity_t<T> value) {
  return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);
}
template <class T>
inline T atomicAnd(T* address, std::type_identity_t<T> value) {
  return __atomic_fetch_and(address, value, __ATOMIC_RELAXED);
}
template <class T>
inline T atomicMax(T* address, std::type_identity_t<T> value) {
  T old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (old < value &&
         !__atomic_compare_exchange_n(address, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
template <class T>
inline T atomicMin(T* address, std::type_identity_t<T> value) {
  T old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (value < old &&
         !__atomic_compare_exchange_n(address, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

// The first part of codegen/cuda/prelude.cuh: what is PTX there, and CUDA's own functions under other names.

#define REWIRE_DEVICE static inline
#define REWIRE_SHARED(name) unsigned char* const name = rewire_shim::current->shared

REWIRE_DEVICE float float_of_bits(unsigned bits) {
  return rewire_shim::from_bits<float>(bits);
}
REWIRE_DEVICE unsigned bits_of_float(float x) {
  return static_cast<unsigned>(rewire_shim::to_bits(x));
}
REWIRE_DEVICE float inverse_sqrt(float x) {
  return 1.0F / sqrtf(x);
}
REWIRE_DEVICE int block_again() {
  return static_cast<int>(blockIdx.x);
}
REWIRE_DEVICE float power_of_two(float x) {
  const float y = exp2f(x);
  return y < 0x1p-126F ? 0.0F : y;
}
REWIRE_DEVICE float fast_inverse(float x) {
  return 1.0F / x;
}
// max.NaN.f32 and min.NaN.f32: of zeros the larger is the positive one.
REWIRE_DEVICE float larger_or_nan(float a, float b) {
  if (a == b) return signbit(a) ? b : a;
  return a != a || a > b ? a : b;
}
REWIRE_DEVICE float smaller_or_nan(float a, float b) {
  if (a == b) return signbit(a) ? a : b;
  return a != a || a < b ? a : b;
}

REWIRE_DEVICE unsigned short bf16_bits(float x) {
  const unsigned bits = bits_of_float(x);
  if (x != x) return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);  // to nearest, ties to even
}
REWIRE_DEVICE unsigned bf16_pair(float low, float high) {
  return bf16_bits(low) | static_cast<unsigned>(bf16_bits(high)) << 16;
}
REWIRE_DEVICE unsigned short f16_bits(float x) {
  const unsigned sign = bits_of_float(x) >> 16 & 0x8000U, magnitude = bits_of_float(x) & 0x7fffffffU;
  unsigned bits = 0x7fff;  // NaN
  if (fabsf(x) < 0x1p-14F) {
    bits = static_cast<unsigned>(nearbyintf(fabsf(x) * 0x1p24F));  // subnormal: multiples of 2^-24
  } else if (fabsf(x) < 65520.0F) {
    bits = ((magnitude + 0xfffU + (magnitude >> 13 & 1U)) >> 13) - (112U << 10);  // to nearest, ties to even
  } else if (x == x) {
    bits = 0x7c00;  // infinity
  }
  return static_cast<unsigned short>(sign | bits);
}
REWIRE_DEVICE float f16_value(unsigned short bits) {
  const unsigned sign = (bits & 0x8000U) << 16, exponent = bits >> 10 & 31U, mantissa = bits & 0x3ffU;
  if (exponent == 0) return copysignf(static_cast<float>(mantissa) * 0x1p-24F, float_of_bits(sign));
  return float_of_bits(sign | (exponent == 31 ? 255U : exponent + 112U) << 23 | mantissa << 13);
}
template <class T>
REWIRE_DEVICE T shuffle_xor(T x, int mask, REWIRE_SHIM_CALLER) {
  return __shfl_xor_sync(0xffffffffU, x, mask, 32, file, function, line);
}

// cp.async: what it copies is not there before the thread has finished its copies.
template <int kBytes>
REWIRE_DEVICE void copy_packet(void* to, const void* from, REWIRE_SHIM_CALLER) {
  rewire_shim::Thread* const self = rewire_shim::current;
  if (reinterpret_cast<uintptr_t>(to) % kBytes != 0 || reinterpret_cast<uintptr_t>(from) % kBytes != 0)
    self->runner->fail(self, REWIRE_SHIM_PLACE("copy_packet"), "an address is not aligned to the packet");
  self->runner->copy(self, to, from, kBytes);
}
REWIRE_DEVICE void finish_copies() {
  rewire_shim::current->runner->finish_copies(rewire_shim::current);
}

// ldmatrix.sync.aligned.m8n8.x4 and its .trans: see the prelude. Lane i gives the address of row i % 8 of
// matrix i / 8, and takes of each matrix two elements of row (transposed: column) i / 4.
template <bool kTransposed>
REWIRE_DEVICE void load_matrices(unsigned (&x)[4], const void* row, REWIRE_SHIM_CALLER) {
  const rewire_shim::Place place = REWIRE_SHIM_PLACE("load_matrices");
  rewire_shim::Thread* const self = rewire_shim::current;
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0)
    self->runner->fail(self, place, "the address of a matrix's row is not aligned to 16 bytes");
  const uint64_t* rows = self->runner->exchange(self, place, 0xffffffffU, reinterpret_cast<uintptr_t>(row));
  const unsigned lane = rewire_shim::lane();
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    unsigned short pair[2];
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned along = lane % 4 * 2 + i, across = lane / 4;
      const auto* elements =
          reinterpret_cast<const unsigned short*>(rows[8 * matrix + (kTransposed ? along : across)]);
      pair[i] = elements[kTransposed ? across : along];
    }
    x[matrix] = pair[0] | static_cast<unsigned>(pair[1]) << 16;
  }
  // Nobody writes to a row that another lane still reads.
  self->runner->exchange(self, place, 0xffffffffU, 0);
}

// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32; the prelude says which lane holds what. An element of
// d is computed by the lane that holds it, out of the registers of the four lanes that hold its row of a and
// the four that hold its column of b.
REWIRE_DEVICE void multiply_16x8x16(float* d, const unsigned* a, const unsigned* b, REWIRE_SHIM_CALLER) {
  struct Operands {
    const unsigned *a, *b;
  };
  const Operands own{a, b};
  const rewire_shim::Place place = REWIRE_SHIM_PLACE("multiply_16x8x16");
  rewire_shim::Thread* const self = rewire_shim::current;
  Operands all[rewire_shim::kWarp];
  const uint64_t* given = self->runner->exchange(self, place, 0xffffffffU, reinterpret_cast<uintptr_t>(&own));
  for (unsigned i = 0; i < rewire_shim::kWarp; ++i) all[i] = *reinterpret_cast<const Operands*>(given[i]);
  const auto half = [](unsigned bits, unsigned k) {
    return float_of_bits(k % 2 == 0 ? bits << 16 : bits & 0xffff0000U);
  };
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = rewire_shim::lane() / 4, upper = i / 2, column = rewire_shim::lane() % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const float x = half(all[row * 4 + k % 8 / 2].a[upper + k / 8 * 2], k);
      const float y = half(all[column * 4 + k % 8 / 2].b[k / 8], k);
      d[i] += x * y;
    }
  }
  // Nobody's operands go away while another lane reads them.
  self->runner->exchange(self, place, 0xffffffffU, 0);
}

#ifdef REWIRE_SHIM_CHECKS
// What the compiler's own checks call when no sanitizer's library is there to: an access that is not aligned
// to its type (16 bytes at once need an address of 16), and an index outside of an array.
namespace rewire_shim {

struct SourceLocation {
  const char* file;
  unsigned line, column;
};
inline void fail_at(const SourceLocation& at, const char* what, const char* message) {
  const Place place{what, at.file, "the kernel", static_cast<int>(at.line)};
  current->runner->fail(current, place, message);
}

}  // namespace rewire_shim

extern "C" void __ubsan_handle_type_mismatch_v1_abort(const rewire_shim::SourceLocation* at, uintptr_t) {
  rewire_shim::fail_at(*at, "memory access", "the address is null or not aligned to the type");
}
extern "C" void __ubsan_handle_out_of_bounds_abort(const rewire_shim::SourceLocation* at, uintptr_t) {
  rewire_shim::fail_at(*at, "array access", "the index is out of bounds");
}
#endif
