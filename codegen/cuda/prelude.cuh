// The ground that emitted kernels stand on: storage types, accesses of 16 bytes, reductions over threads,
// Philox. It includes nothing, so NVRTC reads it in a moment.
//
// All that is no plain C++ (PTX, CUDA's own functions) stands in the first part, each behind a function or a
// macro with a name. REWIRE_HOST_SHIM leaves that part out: whoever defines it has declared the same names
// for the host, and the rest of this file and every kernel compile there as they are.

using i64 = long long;
using u32 = unsigned int;
using u64 = unsigned long long;

#ifndef REWIRE_HOST_SHIM

#define REWIRE_DEVICE static __device__ __forceinline__
// Declares `name`: the block's dynamic shared memory, unsigned char[], aligned to 16 bytes.
#define REWIRE_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

REWIRE_DEVICE float float_of_bits(u32 bits) {
  return __uint_as_float(bits);
}
REWIRE_DEVICE u32 bits_of_float(float x) {
  return __float_as_uint(x);
}
// 1 / sqrt(x), within 2 ulp.
REWIRE_DEVICE float inverse_sqrt(float x) {
  return rsqrtf(x);
}
// 2^x, within 2 ulp; 0 where that is below the least normal number.
REWIRE_DEVICE float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x, within 1 ulp; 0 where that is below the least normal number.
REWIRE_DEVICE float fast_inverse(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The larger and the smaller of two, NaN if either is.
REWIRE_DEVICE float larger_or_nan(float a, float b) {
  float x;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
  return x;
}
REWIRE_DEVICE float smaller_or_nan(float a, float b) {
  float x;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
  return x;
}

// An f32 rounded to nearest even in 16 bits, and back. A NaN stays one.
REWIRE_DEVICE unsigned short bf16_bits(float x) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
// Two of them, the first in the lower half.
REWIRE_DEVICE u32 bf16_pair(float low, float high) {
  u32 bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
REWIRE_DEVICE unsigned short f16_bits(float x) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
REWIRE_DEVICE float f16_value(unsigned short bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}

// The value of the thread of this warp whose number differs in the bits of `mask`. All 32 threads take part.
REWIRE_DEVICE float shuffle_xor(float x, int mask) {
  return __shfl_xor_sync(0xffffffffu, x, mask);
}
REWIRE_DEVICE double shuffle_xor(double x, int mask) {
  return __shfl_xor_sync(0xffffffffu, x, mask);
}
REWIRE_DEVICE int shuffle_xor(int x, int mask) {
  return __shfl_xor_sync(0xffffffffu, x, mask);
}
REWIRE_DEVICE i64 shuffle_xor(i64 x, int mask) {
  return __shfl_xor_sync(0xffffffffu, x, mask);
}

// Four matrices of 8 x 8 elements of 16 bits out of shared memory, by a warp: ldmatrix. Lane i says where row
// i % 8 of matrix i / 8 begins, aligned to 16 bytes, and takes of each matrix the elements 2 (i % 4) and
// 2 (i % 4) + 1 of row i / 4, in the lower and the upper half of a register; transposed: of column i / 4.
template <bool kTransposed>
REWIRE_DEVICE void load_matrices(u32 (&x)[4], const void* row) {
  const u32 address = static_cast<u32>(__cvta_generic_to_shared(row));
  if (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
  }
}

// The block's number, read anew: what was computed from it before does not stay in registers until here.
REWIRE_DEVICE int block_again() {
  int x;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x));
  return x;
}

// Copies into shared memory, 16 bytes or less, both aligned to that: 4 and more go past registers and may be
// under way until finish_copies.
template <int kBytes>
REWIRE_DEVICE void copy_packet(void* to, const void* from) {
  const u32 address = static_cast<u32>(__cvta_generic_to_shared(to));
  if (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
  } else if (kBytes >= 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(kBytes < 4 ? 4 : kBytes)
                 : "memory");
  } else {
    *static_cast<unsigned short*>(to) = *static_cast<const unsigned short*>(from);
  }
}
REWIRE_DEVICE void finish_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// d [16, 8] += a [16, 16] b [16, 8] by a warp on tensor cores, a and b in bf16, sums in f32. Two elements a
// register, the first in its lower half. With g = lane / 4 and t = lane % 4:
//   a[0], a[1]: rows g, g + 8 at columns 2t, 2t + 1        a[2], a[3]: the same rows at columns 2t + 8, 2t + 9
//   b[0], b[1]: column g at rows 2t, 2t + 1 and at 2t + 8, 2t + 9
//   d[0], d[1]: row g at columns 2t, 2t + 1                d[2], d[3]: row g + 8 there
REWIRE_DEVICE void multiply_16x8x16(float* d, const u32* a, const u32* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif  // REWIRE_HOST_SHIM

// --- types -------------------------------------------------------------------------------------------------

// Storage only: arithmetic is f32.
struct bf16 {
  unsigned short bits;
};
struct f16 {
  unsigned short bits;
};

// Conversions between storage and arithmetic, and between dtypes. What becomes an integer does so toward zero
// and is kept within its range, NaN 0.
template <class To, class From>
struct Convert {
  REWIRE_DEVICE To of(From x) { return static_cast<To>(x); }
};
template <class From>
struct Convert<bool, From> {
  REWIRE_DEVICE bool of(From x) { return x != From(0); }
};
template <>
struct Convert<bool, bool> {
  REWIRE_DEVICE bool of(bool x) { return x; }
};
template <class To>
struct Convert<To, bf16> {
  REWIRE_DEVICE To of(bf16 x) { return static_cast<To>(float_of_bits(static_cast<u32>(x.bits) << 16)); }
};
template <class To>
struct Convert<To, f16> {
  REWIRE_DEVICE To of(f16 x) { return static_cast<To>(f16_value(x.bits)); }
};
template <class From>
struct Convert<bf16, From> {
  REWIRE_DEVICE bf16 of(From x) { return bf16{bf16_bits(static_cast<float>(x))}; }
};
template <class From>
struct Convert<f16, From> {
  REWIRE_DEVICE f16 of(From x) { return f16{f16_bits(static_cast<float>(x))}; }
};
template <class To, class From>
REWIRE_DEVICE To saturated(From x, From low, From end, To least, To most) {
  return x != x ? To(0) : x >= end ? most : x <= low ? least : static_cast<To>(x);
}
template <>
struct Convert<int, float> {
  REWIRE_DEVICE int of(float x) {
    return saturated(x, -2147483648.0f, 2147483648.0f, -2147483647 - 1, 2147483647);
  }
};
template <>
struct Convert<int, double> {
  REWIRE_DEVICE int of(double x) {
    return saturated(x, -2147483648.0, 2147483648.0, -2147483647 - 1, 2147483647);
  }
};
template <>
struct Convert<i64, float> {
  REWIRE_DEVICE i64 of(float x) {
    return saturated(x, -9223372036854775808.0f, 9223372036854775808.0f, -9223372036854775807LL - 1,
                     9223372036854775807LL);
  }
};
template <>
struct Convert<i64, double> {
  REWIRE_DEVICE i64 of(double x) {
    return saturated(x, -9223372036854775808.0, 9223372036854775808.0, -9223372036854775807LL - 1,
                     9223372036854775807LL);
  }
};
template <>
struct Convert<unsigned char, float> {
  REWIRE_DEVICE unsigned char of(float x) {
    return saturated(x, 0.0f, 256.0f, static_cast<unsigned char>(0), static_cast<unsigned char>(255));
  }
};
template <>
struct Convert<unsigned char, double> {
  REWIRE_DEVICE unsigned char of(double x) {
    return saturated(x, 0.0, 256.0, static_cast<unsigned char>(0), static_cast<unsigned char>(255));
  }
};

template <>
struct Convert<int, i64> {
  REWIRE_DEVICE int of(i64 x) { return saturated(x, -2147483648LL, 2147483648LL, -2147483647 - 1, 2147483647); }
};
template <>
struct Convert<unsigned char, i64> {
  REWIRE_DEVICE unsigned char of(i64 x) {
    return saturated(x, 0LL, 256LL, static_cast<unsigned char>(0), static_cast<unsigned char>(255));
  }
};
template <>
struct Convert<unsigned char, int> {
  REWIRE_DEVICE unsigned char of(int x) {
    return saturated(x, 0, 256, static_cast<unsigned char>(0), static_cast<unsigned char>(255));
  }
};

template <class To, class From>
REWIRE_DEVICE To convert(From x) {
  return Convert<To, From>::of(x);
}

// --- arithmetic --------------------------------------------------------------------------------------------

REWIRE_DEVICE float round_to_bf16(float x) {
  return convert<float>(convert<bf16>(x));
}
REWIRE_DEVICE float round_to_f16(float x) {
  return convert<float>(convert<f16>(x));
}
REWIRE_DEVICE float infinity() {
  return float_of_bits(0x7f800000u);
}
REWIRE_DEVICE float not_a_number() {
  return float_of_bits(0x7fc00000u);
}
REWIRE_DEVICE double inverse_sqrt(double x) {
  return 1.0 / sqrt(x);
}
REWIRE_DEVICE bool is_finite(float x) {
  return fabsf(x) < infinity();
}
REWIRE_DEVICE bool is_finite(double x) {
  return fabs(x) < static_cast<double>(infinity());
}
REWIRE_DEVICE float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}
REWIRE_DEVICE double sigmoid(double x) {
  return 1.0 / (1.0 + exp(-x));
}
// erf(x), where e = exp(-x^2) is at hand: 1 - e F for x >= 0. F is 1 - x s(1 / (1 + p x)), s being the polynomial
// that is nearest to it where its error, times e x, is largest: 6e-9. Within 1.3e-7 in f32 arithmetic, and e's
// error, but not relative to small x.
REWIRE_DEVICE float erf_by_exp(float x, float e) {
  const float size = smaller_or_nan(fabsf(x), 10.0f);  // from there on, e is 0
  const float t = fast_inverse(fmaf(0.42143565f, size, 1.0f));
  float s = fmaf(-0.14934678f, t, 0.56460667f);
  s = fmaf(s, t, -0.18565546f);
  s = fmaf(s, t, 0.5251951f);
  s = fmaf(s, t, 0.3677176f);
  s = fmaf(s, t, 0.0058620228f);
  return copysignf(fmaf(-e, fmaf(-size, s, 1.0f), 1.0f), x);
}

// NaN if either is.
template <class T>
REWIRE_DEVICE T maximum(T a, T b) {
  return a != a || a > b ? a : b;
}
template <class T>
REWIRE_DEVICE T minimum(T a, T b) {
  return a != a || a < b ? a : b;
}
REWIRE_DEVICE float maximum(float a, float b) {
  return larger_or_nan(a, b);
}
REWIRE_DEVICE float minimum(float a, float b) {
  return smaller_or_nan(a, b);
}
template <class T>
REWIRE_DEVICE T absolute(T x) {
  return x < T(0) ? static_cast<T>(-x) : x;
}
// The index of a gather, kept within [0, limit).
REWIRE_DEVICE i64 clamped(i64 index, i64 limit) {
  return minimum(maximum(index, i64(0)), limit - 1);
}

// --- reductions: fixed order, the same bits in every thread
// --------------------------------------------------

struct Sum {
  template <class T>
  REWIRE_DEVICE T of(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Max {
  template <class T>
  REWIRE_DEVICE T of(T a, T b) {
    return maximum(a, b);
  }
};
REWIRE_DEVICE unsigned char shuffle_xor(unsigned char x, int mask) {
  return static_cast<unsigned char>(shuffle_xor(static_cast<int>(x), mask));
}

// Over neighbouring threads of a warp, kThreads of them: 1, 2, 4 … 32.
template <class Op, int kThreads, class T>
REWIRE_DEVICE T over_threads(T x) {
#pragma unroll
  for (int mask = kThreads / 2; mask > 0; mask /= 2) x = Op::of(x, shuffle_xor(x, mask));
  return x;
}
// Each x over a block of kThreads; `scratch` holds a T for each of them and each warp.
template <class Op, int kThreads, class T, class... More>
REWIRE_DEVICE void over_block(unsigned char* scratch, T& x, More&... more) {
  constexpr int kValues = 1 + int(sizeof...(more));
  T* warps = reinterpret_cast<T*>(scratch);
  T values[kValues] = {over_threads<Op, 32>(x), over_threads<Op, 32>(more)...};
  __syncthreads();  // the scratch may still be read
  if (threadIdx.x % 32 == 0) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) warps[threadIdx.x / 32 * kValues + i] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    values[i] = warps[i];
#pragma unroll
    for (int warp = 1; warp < kThreads / 32; ++warp) values[i] = Op::of(values[i], warps[warp * kValues + i]);
  }
  int place = 0;
  x = values[place];
  ((more = values[++place]), ...);
}

// Over the kGroups groups of a block, each of kThreads neighbouring threads: x of the same place in every
// group, in the groups' order. `scratch` holds an x of every thread. The block's threads share the sums.
template <class Op, int kThreads, int kGroups, class T, int kElements>
REWIRE_DEVICE void over_groups(T (&x)[kElements], unsigned char* scratch) {
  constexpr int kPlaces = kElements * kThreads;
  T* all = reinterpret_cast<T*>(scratch);
  const int thread = int(threadIdx.x) % kThreads, group = int(threadIdx.x) / kThreads;
  __syncthreads();  // the scratch may still be read
#pragma unroll
  for (int e = 0; e < kElements; ++e) all[group * kPlaces + e * kThreads + thread] = x[e];
  __syncthreads();
  for (int place = int(threadIdx.x); place < kPlaces; place += kThreads * kGroups) {
    T total = all[place];
#pragma unroll 8
    for (int g = 1; g < kGroups; ++g) total = Op::of(total, all[g * kPlaces + place]);
    all[place] = total;  // which no other thread reads before the next barrier
  }
  __syncthreads();
#pragma unroll
  for (int e = 0; e < kElements; ++e) x[e] = all[e * kThreads + thread];
}
template <class Op, int kThreads, int kGroups, class T>
REWIRE_DEVICE T over_groups(T x, unsigned char* scratch) {
  T values[1] = {x};
  over_groups<Op, kThreads, kGroups>(values, scratch);
  return values[0];
}

// --- memory ------------------------------------------------------------------------------------------------

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Packet {
  T lane[kCount];
};

// `kPacket` neighbours in one access, which the address must be aligned to.
template <int kPacket, class M>
REWIRE_DEVICE Packet<M, kPacket> packet_at(const M* from) {
  return *reinterpret_cast<const Packet<M, kPacket>*>(from);
}
template <int kPacket, class M>
REWIRE_DEVICE void put_packet(M* to, const Packet<M, kPacket>& packet) {
  *reinterpret_cast<Packet<M, kPacket>*>(to) = packet;
}

// Neighbours of bf16 two by two, each of which becomes an f32 by a shift or a mask.
template <int kPacket>
REWIRE_DEVICE Packet<u32, kPacket / 2> pairs_at(const bf16* from) {
  return *reinterpret_cast<const Packet<u32, kPacket / 2>*>(from);
}
template <int kPairs>
REWIRE_DEVICE float of_pairs(const Packet<u32, kPairs>& pairs, int element) {
  const u32 pair = pairs.lane[element / 2];
  return float_of_bits(element % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
}

// How the elements of a row lie in the threads that share it: chunk by chunk, kVector neighbours a thread.
//   element e of thread t is lane ((e / kVector) kThreads + t) kVector + e % kVector
// Where a row is cut over blocks, `kHeld` is the number of chunks a thread holds, and the thread's number counts
// on from block to block.
template <int kLanes, int kThreads, int kVector, int kHeld = 0>
struct Row {
  static constexpr int kSpan = kThreads * kVector;
  static constexpr int kChunks = kHeld > 0 ? kHeld : (kLanes + kSpan - 1) / kSpan;
  static constexpr int kElements = kChunks * kVector;
  static constexpr int kWidth = kVector;
  static constexpr bool kFull = kLanes % (kSpan * kChunks) == 0;  // every thread's every element is a lane
  REWIRE_DEVICE int lane(int element, int thread) {
    return ((element / kVector) * kThreads + thread) * kVector + element % kVector;
  }
  REWIRE_DEVICE bool holds(int element, int thread) { return kFull || lane(element, thread) < kLanes; }
};

// `kPacket` neighbours at once, which the address must be aligned to; no access is wider than 16 bytes.
template <class L, int kPacket, class T, class M>
REWIRE_DEVICE void load(T (&x)[L::kElements], const M* row, int thread) {
  constexpr int kCount =
      kPacket * static_cast<int>(sizeof(M)) > 16 ? 16 / static_cast<int>(sizeof(M)) : kPacket;
#pragma unroll
  for (int e = 0; e < L::kElements; e += kCount) {
    if (L::holds(e, thread)) {
      const Packet<M, kCount> packet = *reinterpret_cast<const Packet<M, kCount>*>(row + L::lane(e, thread));
#pragma unroll
      for (int k = 0; k < kCount; ++k) x[e + k] = convert<T>(packet.lane[k]);
    } else {
#pragma unroll
      for (int k = 0; k < kCount; ++k) x[e + k] = T(0);
    }
  }
}

template <class L, int kPacket, class T, class M>
REWIRE_DEVICE void store(M* row, const T (&x)[L::kElements], int thread, bool wanted = true) {
  constexpr int kCount =
      kPacket * static_cast<int>(sizeof(M)) > 16 ? 16 / static_cast<int>(sizeof(M)) : kPacket;
#pragma unroll
  for (int e = 0; e < L::kElements; e += kCount) {
    if (wanted && L::holds(e, thread)) {
      Packet<M, kCount> packet;
#pragma unroll
      for (int k = 0; k < kCount; ++k) packet.lane[k] = convert<M>(x[e + k]);
      *reinterpret_cast<Packet<M, kCount>*>(row + L::lane(e, thread)) = packet;
    }
  }
}

// --- products ----------------------------------------------------------------------------------------------

// Elements from row to row, and from column to column.
template <int kRowStride, int kColumnStride>
struct Strides {
  static constexpr int kRow = kRowStride;
  static constexpr int kColumn = kColumnStride;
};

// c [kRows, kColumns] = a [kRows, kInner] b [kInner, kColumns], in f32, by a block of kThreads: each takes
// squares of 4 x 4, spread so that neighbours read neighbours. Rows and columns beyond the end repeat the last.
template <int kRows, int kColumns, int kInner, int kThreads, class StridesA, class StridesB, class StridesC, class A,
          class B>
REWIRE_DEVICE void dot(float* c, const A* a, const B* b) {
  constexpr int kAcross = 16, kDown = kThreads / kAcross;
  constexpr int kHigh = kRows < 4 * kDown ? (kRows + kDown - 1) / kDown : 4;
  constexpr int kWide = kColumns < 4 * kAcross ? (kColumns + kAcross - 1) / kAcross : 4;
  const int down = int(threadIdx.x) / kAcross, across = int(threadIdx.x) % kAcross;
  for (int row = down; row < kRows; row += kDown * kHigh) {
    for (int column = across; column < kColumns; column += kAcross * kWide) {
      float sum[kHigh][kWide] = {};
      for (int k = 0; k < kInner; ++k) {
        float left[kHigh], right[kWide];
#pragma unroll
        for (int i = 0; i < kHigh; ++i)
          left[i] = convert<float>(a[minimum(row + i * kDown, kRows - 1) * StridesA::kRow + k * StridesA::kColumn]);
#pragma unroll
        for (int j = 0; j < kWide; ++j)
          right[j] =
              convert<float>(b[k * StridesB::kRow + minimum(column + j * kAcross, kColumns - 1) * StridesB::kColumn]);
#pragma unroll
        for (int i = 0; i < kHigh; ++i) {
#pragma unroll
          for (int j = 0; j < kWide; ++j) sum[i][j] = fmaf(left[i], right[j], sum[i][j]);
        }
      }
#pragma unroll
      for (int i = 0; i < kHigh; ++i) {
#pragma unroll
        for (int j = 0; j < kWide; ++j) {
          const int r = row + i * kDown, s = column + j * kAcross;
          if (r < kRows && s < kColumns) c[r * StridesC::kRow + s * StridesC::kColumn] = sum[i][j];
        }
      }
    }
  }
}

// --- products on tensor cores ------------------------------------------------------------------------------

// A matrix of bf16 in shared memory: kOther rows of kInner elements each, the sum's axis, or the other way
// about where that axis goes down the rows. Rows begin every kPitch elements: a multiple of 8, and an odd one,
// so that eight rows lie in distinct banks.
template <int kOtherCount, int kInnerCount, int kPitchElements, bool kSumGoesDown>
struct Narrow {
  static constexpr int kOther = kOtherCount, kInner = kInnerCount, kPitch = kPitchElements;
  static constexpr bool kDown = kSumGoesDown;
  const bf16* at;
};

// The 16 x 16 elements from (other, inner) on as multiply_16x8x16 wants its left operand, or two of its right
// one. Beyond the end, rows and columns repeat the last. kEnd: the sum ends within them, and what is beyond its
// end is zero. kWithin: all of `other` is within the matrix; kPast: the sum may end within them.
template <bool kLeft, bool kEnd, bool kWithin, bool kPast, class M>
REWIRE_DEVICE void load_fragment(u32 (&x)[4], M matrix, int other, int inner) {
  const int lane = int(threadIdx.x) % 32;
  const int o = (kLeft ? lane / 8 % 2 : lane / 16) * 8, k = (kLeft ? lane / 16 : lane / 8 % 2) * 8;
  constexpr int kRows = M::kDown ? M::kInner : M::kOther, kColumns = M::kDown ? M::kOther : M::kInner;
  constexpr bool kRowsEnd = kRows % 16 != 0 && (M::kDown ? kPast : !kWithin);
  constexpr bool kColumnsEnd = kColumns % 16 != 0 && (M::kDown ? !kWithin : kPast);
  const int down = M::kDown ? inner : other, across = M::kDown ? other : inner;
  const int row = (M::kDown ? k : o) + lane % 8, column = M::kDown ? o : k;
  // A thread's own place comes first, and what calls share last, so that many calls need few registers.
  const bf16* const own =
      matrix.at + (kRowsEnd ? minimum(row + down, kRows - 1) : row) * M::kPitch + (kColumnsEnd ? 0 : column);
  const bf16* const from = own + (kRowsEnd ? 0 : down * M::kPitch);
  load_matrices<M::kDown>(x, from + (kColumnsEnd ? minimum(column + across, M::kPitch - 8) : across));
  if (kEnd) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int first = inner + half * 8 + lane % 4 * 2;
      const u32 kept = first + 1 < M::kInner ? 0xffffffffu : first < M::kInner ? 0xffffu : 0u;
      x[kLeft ? 2 * half : half] &= kept;
      x[kLeft ? 2 * half + 1 : half + 2] &= kept;
    }
  }
}

template <int kWide, bool kEnd, bool kWithin, class A, class B>
REWIRE_DEVICE void multiply_step(float (&sum)[4 * kWide], A a, B b, int row, int column, int inner) {
  u32 left[4];
  load_fragment<true, kEnd, false, kEnd>(left, a, row, inner);
#pragma unroll
  for (int j = 0; j < kWide; j += 2) {
    u32 right[4];
    load_fragment<false, kEnd, kWithin, kEnd>(right, b, column + 8 * j, inner);
    multiply_16x8x16(sum + 4 * j, left, right);
    if (j + 1 < kWide) multiply_16x8x16(sum + 4 * j + 4, left, right + 2);
  }
}
// The 16 x 8 kWide elements of the product a b from (row, column) on, by a warp; fragment_row and
// fragment_column say which of them a thread's element e is. kWithin: all of these columns are within b, and
// kWide is even.
template <int kWide, bool kWithin, class A, class B>
REWIRE_DEVICE void multiply(float (&sum)[4 * kWide], A a, B b, int row, int column) {
#pragma unroll
  for (int e = 0; e < 4 * kWide; ++e) sum[e] = 0.0f;
#pragma unroll(kWide > 4 ? 1 : A::kInner <= 64 ? 4 : 2)
  for (int inner = 0; inner + 16 <= A::kInner; inner += 16)
    multiply_step<kWide, false, kWithin>(sum, a, b, row, column, inner);
  if (A::kInner % 16 != 0)
    multiply_step<kWide, true, kWithin>(sum, a, b, row, column, A::kInner / 16 * 16);
}

// 16 rows of a left operand in registers, of a warp that multiplies them more than once.
template <int kSteps, class M>
REWIRE_DEVICE void load_rows(u32 (&rows)[kSteps][4], M matrix, int row) {
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    if (16 * i + 16 <= M::kInner) {
      load_fragment<true, false, false, false>(rows[i], matrix, row, 16 * i);
    } else {
      load_fragment<true, true, false, true>(rows[i], matrix, row, 16 * i);
    }
  }
}
template <int kWide, bool kWithin, int kSteps, class B>
REWIRE_DEVICE void multiply_rows(float (&sum)[4 * kWide], const u32 (&rows)[kSteps][4], B b, int column) {
#pragma unroll
  for (int e = 0; e < 4 * kWide; ++e) sum[e] = 0.0f;
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
#pragma unroll
    for (int j = 0; j < kWide; j += 2) {
      u32 right[4];
      if (16 * i + 16 <= B::kInner) {
        load_fragment<false, false, kWithin, false>(right, b, column + 8 * j, 16 * i);
      } else {
        load_fragment<false, true, kWithin, true>(right, b, column + 8 * j, 16 * i);
      }
      multiply_16x8x16(sum + 4 * j, rows[i], right);
      if (j + 1 < kWide) multiply_16x8x16(sum + 4 * j + 4, rows[i], right + 2);
    }
  }
}
// sum [16, 8 kWide] += x b, x being a warp's tile of another product, 8 kInnerWide elements of the sum's axis
// from `inner` on. It is rounded to bf16 here, and zero beyond the sum's end, where b's rows repeat the last.
// kWithin: all of these elements are within the sum, and kInnerWide is even.
template <int kWide, int kInnerWide, bool kWithin, class B>
REWIRE_DEVICE void multiply_tile(float (&sum)[4 * kWide], const float (&x)[4 * kInnerWide], B b, int inner) {
  constexpr bool kEnd = !kWithin && !B::kDown && B::kInner % 16 != 0;
#pragma unroll
  for (int i = 0; i < kInnerWide; i += 2) {
    u32 left[4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float* const pair = x + 4 * i + 2 * half;
      left[half] = bf16_pair(pair[0], pair[1]);
      left[half + 2] = i + 1 < kInnerWide ? bf16_pair(pair[4], pair[5]) : 0u;
    }
#pragma unroll
    for (int j = 0; j < kWide; j += 2) {
      u32 right[4];
      load_fragment<false, kEnd, false, !kWithin>(right, b, 8 * j, inner + 8 * i);
      multiply_16x8x16(sum + 4 * j, left, right);
      if (j + 1 < kWide) multiply_16x8x16(sum + 4 * j + 4, left, right + 2);
    }
  }
}
REWIRE_DEVICE int fragment_row(int e) {
  return int(threadIdx.x) % 32 / 4 + e % 4 / 2 * 8;
}
REWIRE_DEVICE int fragment_column(int e) {
  return e / 4 * 8 + int(threadIdx.x) % 4 * 2 + e % 2;
}
// Over the threads that share rows of a product: x[0] of the upper 8 rows, x[1] of the lower.
template <class Op, class T>
REWIRE_DEVICE void over_rows(T (&x)[2]) {
  x[0] = over_threads<Op, 4>(x[0]);
  x[1] = over_threads<Op, 4>(x[1]);
}

REWIRE_DEVICE Packet<bf16, 2> packet_of(u32 pair) {
  return {{bf16{static_cast<unsigned short>(pair)}, bf16{static_cast<unsigned short>(pair >> 16)}}};
}
// A warp's tile from (row, column) on into a matrix in shared memory, two neighbours at once: columns below
// kColumns alone, unless it is kWithin them. Rows begin every kPitch elements, and there are 16 of each tile.
template <int kWide, bool kWithin, int kColumns, int kPitch>
REWIRE_DEVICE void put_tile(bf16* to, const float (&x)[4 * kWide], int row, int column) {
  bf16* const own = to + (row + fragment_row(0)) * kPitch + column + fragment_column(0);
#pragma unroll
  for (int e = 0; e < 4 * kWide; e += 2) {
    if (kWithin || column + fragment_column(e) < kColumns)
      *reinterpret_cast<u32*>(own + e % 4 / 2 * 8 * kPitch + e / 4 * 8) = bf16_pair(x[e], x[e + 1]);
  }
}
// A warp's tile from (row, column) on into a matrix of kRows x kColumns in memory, whose rows begin every kStride
// elements, a multiple of 8 as kColumns is. The four threads that share a row have pairs of each 8 columns; they
// exchange them, so that each writes 8 neighbours.
template <int kWide, int kRows, int kColumns, int kStride>
REWIRE_DEVICE void store_tile(bf16* to, const float (&x)[4 * kWide], int row, int column, int rows = kRows) {
  const int thread = int(threadIdx.x) % 4;
#pragma unroll
  for (int e = 0; e < 4 * kWide; e += 16) {
#pragma unroll
    for (int half = 0; half < 4; half += 2) {
      u32 pairs[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int at = e + 4 * j + half;
        pairs[j] = at < 4 * kWide ? bf16_pair(x[at], x[at + 1]) : 0u;
      }
#pragma unroll
      for (int bit = 1; bit < 4; bit *= 2) {
        const bool upper = (thread & bit) != 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if ((j & bit) != 0) continue;
          const u32 given = upper ? pairs[j] : pairs[j | bit];
          const u32 taken = static_cast<u32>(shuffle_xor(static_cast<int>(given), bit));
          pairs[j] = upper ? taken : pairs[j];
          pairs[j | bit] = upper ? pairs[j | bit] : taken;
        }
      }
      const int r = row + fragment_row(half), c = column + e * 2 + thread * 8;
      Packet<bf16, 8> packet;
#pragma unroll
      for (int k = 0; k < 8; ++k) packet.lane[k] = packet_of(pairs[k / 2]).lane[k % 2];
      if (r < rows && c < kColumns) *reinterpret_cast<Packet<bf16, 8>*>(to + r * kStride + c) = packet;
    }
  }
}

// The same for 16 columns, where more stand to the right: each thread writes 4 neighbours.
template <int kRows, int kColumns, int kStride>
REWIRE_DEVICE void store_two(bf16* to, const float (&x)[8], int row, int column) {
  const int thread = int(threadIdx.x) % 4;
  const bool odd = thread % 2 != 0;
#pragma unroll
  for (int half = 0; half < 4; half += 2) {
    const u32 left = bf16_pair(x[half], x[half + 1]), right = bf16_pair(x[half + 4], x[half + 5]);
    const u32 taken = static_cast<u32>(shuffle_xor(static_cast<int>(odd ? left : right), 1));
    const Packet<bf16, 2> lower = packet_of(odd ? taken : left), upper = packet_of(odd ? right : taken);
    const int r = row + fragment_row(half), c = column + (odd ? thread * 2 + 6 : thread * 2);
    if (r < kRows && c < kColumns)
      *reinterpret_cast<Packet<bf16, 4>*>(to + r * kStride + c) = {
          {lower.lane[0], lower.lane[1], upper.lane[0], upper.lane[1]}};
  }
}

// The sums of a tile's columns over its first `rows` rows, by a warp; kRounds: of its elements as bf16. The
// threads that have the same columns share them out while they add.
template <int kWide, bool kRounds>
REWIRE_DEVICE void put_sums(float* to, const float (&x)[4 * kWide], int rows) {
  constexpr int kCount = 2 * kWide;  // of a thread's columns
  const bool upper = fragment_row(0) < rows, lower = fragment_row(2) < rows;
  float sum[kCount];
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    const float* const own = x + 2 * i;
    if (kRounds) {
      const u32 above = upper ? bf16_pair(own[0], own[1]) : 0u, below = lower ? bf16_pair(own[2], own[3]) : 0u;
      sum[i] = float_of_bits(above << 16) + float_of_bits(below << 16);
      sum[i + 1] = float_of_bits(above & 0xffff0000u) + float_of_bits(below & 0xffff0000u);
    } else {
      sum[i] = (upper ? own[0] : 0.0f) + (lower ? own[2] : 0.0f);
      sum[i + 1] = (upper ? own[1] : 0.0f) + (lower ? own[3] : 0.0f);
    }
  }
  int count = kCount, first = 0;
  bool writes = true;
#pragma unroll
  for (int mask = 16; mask >= 4; mask /= 2) {
    const bool second = (int(threadIdx.x) & mask) != 0;
    const bool halves = count % 2 == 0;
    count = halves ? count / 2 : count;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i >= count) continue;
      const float other = halves ? sum[(i + count) % kCount] : sum[i];
      sum[i] = (second ? other : sum[i]) + shuffle_xor(second ? sum[i] : other, mask);
    }
    first += halves && second ? count : 0;
    writes = writes && (halves || !second);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int own = first + i;
    if (i < count && writes) to[own / 2 * 8 + int(threadIdx.x) % 4 * 2 + own % 2] = sum[i];
  }
}
// The sum of a column of kRows, kPitch elements from row to row.
template <int kRows, int kPitch>
REWIRE_DEVICE float sum_down(const float* column) {
  float sum = column[0];
#pragma unroll
  for (int row = 1; row < kRows; ++row) sum += column[row * kPitch];
  return sum;
}

// Rows of a matrix into shared memory by a block, kPacket neighbours at once. Rows begin every kFrom and every
// kTo elements. What it copies is there after finish_copies and a barrier: until then all of it is under way.
template <int kRows, int kColumns, int kFrom, int kTo, int kPacket, int kThreads, class T>
REWIRE_DEVICE void copy_rows(T* to, const T* from) {
  constexpr int kPackets = kColumns / kPacket, kCount = kRows * kPackets;
#pragma unroll
  for (int first = 0; first < kCount; first += kThreads) {
    const int at = first + int(threadIdx.x);
    const int row = at / kPackets, column = at % kPackets * kPacket;
    if (first + kThreads <= kCount || at < kCount)
      copy_packet<kPacket * static_cast<int>(sizeof(T))>(to + row * kTo + column, from + row * kFrom + column);
  }
}

// The same for a matrix of `rows` rows of kColumns elements, which are kStep apart in memory. What is beyond them, up
// to kRows rows of kPadded elements, is zero.
template <int kRows, int kColumns, int kPadded, int kFrom, int kStep, int kTo, int kPacket, int kThreads, class T>
REWIRE_DEVICE void copy_tile(T* to, const T* from, int rows) {
  constexpr int kPackets = kPadded / kPacket, kCount = kRows * kPackets;
  constexpr bool kSameColumn = kThreads % kPackets == 0;  // a thread's packets are in rows at equal distances
  const int thread = int(threadIdx.x), own_row = thread / kPackets;
  const int own_column = thread % kPackets * kPacket;
  T* const own_to = to + own_row * kTo + own_column;
  const T* const own_from = from + own_row * kFrom + own_column * kStep;
#pragma unroll
  for (int first = 0; first < kCount; first += kThreads) {
    const int at = first + thread, down = first / kPackets;
    if (first + kThreads > kCount && at >= kCount) continue;
    const int row = kSameColumn ? own_row + down : at / kPackets;
    const int column = kSameColumn ? own_column : at % kPackets * kPacket;
    T* const place = kSameColumn ? own_to + down * kTo : to + row * kTo + column;
    if (row < rows && (kColumns == kPadded || column < kColumns)) {
      copy_packet<kPacket * static_cast<int>(sizeof(T))>(
          place, kSameColumn ? own_from + down * kFrom : from + row * kFrom + column * kStep);
    } else {
      put_packet<kPacket>(place, Packet<T, kPacket>{});
    }
  }
}
// `rows` elements of 4 bytes, kFrom apart, by a block; zero beyond them, up to kRows.
template <int kRows, int kFrom, int kThreads, class T>
REWIRE_DEVICE void copy_column(T* to, const T* from, int rows) {
#pragma unroll
  for (int first = 0; first < kRows; first += kThreads) {
    const int row = first + int(threadIdx.x);
    if (row >= kRows) continue;
    if (row < rows) {
      copy_packet<4>(to + row, from + row * kFrom);
    } else {
      to[row] = T(0);
    }
  }
}

// --- random numbers: Philox-4x32-10 (Salmon et al., SC 2011)
// -------------------------------------------------

struct PhiloxBlock {
  u32 word[4];
};

// The block of element / 4 of a stream at a step.
REWIRE_DEVICE PhiloxBlock philox(u64 seed, u64 step, u64 stream, u64 element) {
  const u64 block = element / 4;
  u32 c0 = static_cast<u32>(block), c1 = static_cast<u32>(stream), c2 = static_cast<u32>(stream >> 32);
  u32 c3 = static_cast<u32>(step) + static_cast<u32>(block >> 32) * 2654435761u;
  u32 k0 = static_cast<u32>(seed), k1 = static_cast<u32>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = u64(0xD2511F53u) * c0, p1 = u64(0xCD9E8D57u) * c2;
    const u32 high0 = static_cast<u32>(p0 >> 32), high1 = static_cast<u32>(p1 >> 32);
    c0 = high1 ^ c1 ^ k0;
    c1 = static_cast<u32>(p1);
    c2 = high0 ^ c3 ^ k1;
    c3 = static_cast<u32>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// [0, 1): the top 24 bits, exact in f32.
REWIRE_DEVICE float uniform_of(u32 word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}
REWIRE_DEVICE u32 word_of(const PhiloxBlock& block, int which) {
  return which == 0 ? block.word[0] : which == 1 ? block.word[1] : which == 2 ? block.word[2] : block.word[3];
}
REWIRE_DEVICE float uniform(const PhiloxBlock& block, u64 element) {
  return uniform_of(word_of(block, static_cast<int>(element % 4)));
}
// Box-Muller on the pair of words that holds the element: r cos(t) for even elements, r sin(t) for odd ones.
REWIRE_DEVICE float normal(const PhiloxBlock& block, u64 element) {
  const int pair = static_cast<int>(element % 4) / 2 * 2;
  const float radius = sqrtf(-2.0f * logf(1.0f - uniform_of(word_of(block, pair))));
  const float angle = 6.283185307179586f * uniform_of(word_of(block, pair + 1));
  return element % 2 == 0 ? radius * cosf(angle) : radius * sinf(angle);
}
