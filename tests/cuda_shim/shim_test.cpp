// The shim against kernels written by hand: what they compute, and what it says of kernels that a device
// would run into undefined behaviour.
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "ir/error.h"
#include "ir/tensor.h"
#include "tests/cuda_shim/device.h"
#include "tests/cuda_shim/launch.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

extern "C" {

__global__ void vector_add(const float* a, const float* b, float* c, const int* count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < *count) c[i] = a[i] + b[i];
}

// Halves the block again and again in shared memory.
__global__ void block_sums(const float* x, float* sums) {
  REWIRE_SHARED(memory);
  auto* partial = reinterpret_cast<float*>(memory);
  partial[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

// The same without the barrier before the first step: a race.
__global__ void block_sums_race(const float* x, float* sums) {
  REWIRE_SHARED(memory);
  auto* partial = reinterpret_cast<float*>(memory);
  partial[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

// Adds over warps twice, through the same memory, without a barrier between reading it and writing it again.
__global__ void sums_run_over(const float* x, float* sums) {
  REWIRE_SHARED(memory);
  auto* warps = reinterpret_cast<float*>(memory);
  float total = 0;
  for (int pass = 0; pass < 2; ++pass) {
    float value = x[threadIdx.x] + static_cast<float>(pass);
    for (int mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    total += warps[0] + warps[1];
  }
  sums[threadIdx.x] = total;
}

__global__ void warp_sums(const double* x, double* sums) {
  double value = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  sums[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

// Quarters of a warp walk a different number of times, each with its own mask; then a scan up and a read
// down.
__global__ void sub_warps(const int* x, int* sums, int* scans, int* next) {
  const unsigned lane = threadIdx.x % 32, quarter = lane / 8, mask = 0xffU << (quarter * 8);
  int value = x[threadIdx.x];
  for (unsigned i = 0; i < quarter; ++i) value += __shfl_sync(mask, value, 0, 8);
  sums[threadIdx.x] = value;
  __syncwarp();
  int scan = x[threadIdx.x];
  for (unsigned lanes = 1; lanes < 32; lanes *= 2) {
    const int before = __shfl_up_sync(0xffffffffU, scan, lanes);
    if (lane >= lanes) scan += before;
  }
  scans[threadIdx.x] = scan;
  next[threadIdx.x] = __shfl_down_sync(0xffffffffU, x[threadIdx.x], 1);
}

__global__ void votes(const int* x, unsigned* ballots, int* any_all) {
  const int value = x[threadIdx.x];
  ballots[threadIdx.x] = __ballot_sync(0xffffffffU, value > 3);
  any_all[threadIdx.x] = __any_sync(0xffffffffU, value == 7) + 2 * __all_sync(0xffffffffU, value >= 0);
}

// A tile of 32 x 32 through shared memory, 32 x 8 threads.
__global__ void transpose(const float* x, float* y, const int* rows_and_columns) {
  REWIRE_SHARED(memory);
  auto* tile = reinterpret_cast<float*>(memory);
  const int rows = rows_and_columns[0], columns = rows_and_columns[1], across = (columns + 31) / 32;
  const int tile_row = static_cast<int>(blockIdx.x) / across * 32,
            tile_column = static_cast<int>(blockIdx.x) % across * 32;
  const int lane = static_cast<int>(threadIdx.x) % 32, first = static_cast<int>(threadIdx.x) / 32;
  for (int i = first; i < 32; i += 8) {
    if (tile_row + i < rows && tile_column + lane < columns)
      tile[i * 33 + lane] = x[(tile_row + i) * columns + tile_column + lane];
  }
  __syncthreads();
  for (int i = first; i < 32; i += 8) {
    if (tile_column + i < columns && tile_row + lane < rows)
      y[(tile_column + i) * rows + tile_row + lane] = tile[lane * 33 + i];
  }
}

__global__ void histogram(const int* x, int* counts, unsigned long long* total, int* largest) {
  REWIRE_SHARED(memory);
  int* mine = reinterpret_cast<int*>(memory);
  if (threadIdx.x < 10) mine[threadIdx.x] = 0;
  __syncthreads();
  const int value = x[blockIdx.x * blockDim.x + threadIdx.x];
  atomicAdd(&mine[value], 1);
  atomicAdd(total, 1);
  atomicMax(largest, value);
  __syncthreads();
  if (threadIdx.x < 10) atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}

// Four matrices of 8 x 8 whose element (r, c) of matrix m is 64 m + 8 r + c, rows 24 elements apart.
__global__ void fragments(unsigned* plain, unsigned* transposed) {
  REWIRE_SHARED(memory);
  auto* matrices = reinterpret_cast<unsigned short*>(memory);
  for (unsigned i = threadIdx.x; i < 256; i += 32)
    matrices[i / 8 * 24 + i % 8] = static_cast<unsigned short>(i);
  __syncthreads();
  unsigned x[4];
  load_matrices<false>(x, matrices + threadIdx.x * 24);
  for (unsigned i = 0; i < 4; ++i) plain[4 * threadIdx.x + i] = x[i];
  load_matrices<true>(x, matrices + threadIdx.x * 24);
  for (unsigned i = 0; i < 4; ++i) transposed[4 * threadIdx.x + i] = x[i];
}
__global__ void fragments_misaligned(unsigned* words) {
  REWIRE_SHARED(memory);
  unsigned x[4];
  load_matrices<false>(x, memory + threadIdx.x * 24);
  words[threadIdx.x] = x[0];
}
// Lane 0 writes to its row as soon as it has its part of the matrices.
__global__ void fragments_written_over(unsigned* words) {
  REWIRE_SHARED(memory);
  auto* rows = reinterpret_cast<unsigned*>(memory);
  for (unsigned i = threadIdx.x; i < 128; i += 32) rows[i] = i;
  __syncthreads();
  unsigned x[4];
  load_matrices<false>(x, memory + threadIdx.x * 16);
  for (unsigned i = 0; i < 128 && threadIdx.x == 0; ++i) rows[i] = 0;
  words[threadIdx.x] = x[3];
}

// One warp: [16, 16] x [16, 8], row-major a and d, b column by column.
__global__ void one_mma(const unsigned short* a, const unsigned short* b, float* d) {
  const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
  const auto pair = [](const unsigned short* at) { return at[0] | static_cast<unsigned>(at[1]) << 16; };
  const unsigned own_a[4] = {pair(a + g * 16 + 2 * t), pair(a + (g + 8) * 16 + 2 * t),
                             pair(a + g * 16 + 2 * t + 8), pair(a + (g + 8) * 16 + 2 * t + 8)};
  const unsigned own_b[2] = {pair(b + g * 16 + 2 * t), pair(b + g * 16 + 2 * t + 8)};
  float own_d[4] = {1, 1, 1, 1};
  multiply_16x8x16(own_d, own_a, own_b);
  d[g * 8 + 2 * t] = own_d[0];
  d[g * 8 + 2 * t + 1] = own_d[1];
  d[(g + 8) * 8 + 2 * t] = own_d[2];
  d[(g + 8) * 8 + 2 * t + 1] = own_d[3];
}

__global__ void some_skip_the_barrier(float* x) {
  if (threadIdx.x >= 40) __syncthreads();
  x[threadIdx.x] = 1;
}

__global__ void two_barriers(float* x) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  x[threadIdx.x] = 1;
}

__global__ void barrier_against_shuffle(float* x) {
  if (threadIdx.x < 32) {
    x[threadIdx.x] = shuffle_xor(x[threadIdx.x], threadIdx.x == 3 ? 1 : 2);
  }
  if (threadIdx.x != 35) __syncthreads();
  if (threadIdx.x == 35) x[35] = shuffle_xor(x[35], 1);
}

__global__ void a_lane_outside_of_its_mask(float* x) {
  x[threadIdx.x] = __shfl_sync(0xfffffffeU, x[threadIdx.x], 1);
}

__global__ void a_lane_stays_away(float* x) {
  if (threadIdx.x != 9) x[threadIdx.x] = shuffle_xor(x[threadIdx.x], 1);
}

__global__ void past_shared_memory(float* x) {
  REWIRE_SHARED(memory);
  reinterpret_cast<float*>(memory)[threadIdx.x + 1] = x[threadIdx.x];
}

__global__ void reads_what_nobody_wrote(float* x) {
  REWIRE_SHARED(memory);
  x[threadIdx.x] = reinterpret_cast<float*>(memory)[threadIdx.x];
}

// Two floats a thread, from an address and to one that are so many elements from being aligned to a packet.
__global__ void copies(const float* x, float* y, const int* finishes, const int* offset) {
  REWIRE_SHARED(memory);
  auto* floats = reinterpret_cast<float*>(memory);
  copy_packet<8>(floats + 2 * threadIdx.x + *offset, x + 2 * threadIdx.x);
  if (*finishes == 1) finish_copies();
  __syncthreads();
  const unsigned other = 31 - threadIdx.x;
  y[2 * threadIdx.x] = floats[2 * other];
  y[2 * threadIdx.x + 1] = floats[2 * other + 1];
}

__global__ void conversions(const float* x, unsigned short* as_bf16, unsigned short* as_f16,
                            float* from_f16) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  as_bf16[i] = bf16_bits(x[i]);
  as_f16[i] = f16_bits(x[i]);
  from_f16[i] = f16_value(as_f16[i]);
}
}

REWIRE_SHIM_FILE()
REWIRE_SHIM_KERNEL(vector_add)
REWIRE_SHIM_KERNEL(block_sums)
REWIRE_SHIM_KERNEL(block_sums_race)
REWIRE_SHIM_KERNEL(sums_run_over)
REWIRE_SHIM_KERNEL(warp_sums)
REWIRE_SHIM_KERNEL(sub_warps)
REWIRE_SHIM_KERNEL(votes)
REWIRE_SHIM_KERNEL(transpose)
REWIRE_SHIM_KERNEL(histogram)
REWIRE_SHIM_KERNEL(fragments)
REWIRE_SHIM_KERNEL(fragments_misaligned)
REWIRE_SHIM_KERNEL(fragments_written_over)
REWIRE_SHIM_KERNEL(one_mma)
REWIRE_SHIM_KERNEL(some_skip_the_barrier)
REWIRE_SHIM_KERNEL(two_barriers)
REWIRE_SHIM_KERNEL(barrier_against_shuffle)
REWIRE_SHIM_KERNEL(a_lane_outside_of_its_mask)
REWIRE_SHIM_KERNEL(a_lane_stays_away)
REWIRE_SHIM_KERNEL(past_shared_memory)
REWIRE_SHIM_KERNEL(reads_what_nobody_wrote)
REWIRE_SHIM_KERNEL(copies)
REWIRE_SHIM_KERNEL(conversions)

namespace rewire::cuda_shim {
namespace {

float bf16_value(unsigned short bits) {
  return float_of_bits(static_cast<unsigned>(bits) << 16);
}

#define KERNEL(symbol) (KernelFunction{#symbol, &symbol##_on_host, &rewire_shim_current})

template <class... Arrays>
void launch(const KernelFunction& kernel, const Grid& grid, std::uint64_t order_seed, Arrays&... arrays) {
  GridRunner runner(order_of_seed(order_seed));
  void* const arguments[] = {arrays.data()...};
  runner.launch(kernel, grid, arguments);
}

template <class T = float>
std::vector<T> ramp(std::size_t count, int period) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(static_cast<int>(i) % period);
  return values;
}

TEST_CASE("a kernel without barriers runs over all blocks") {
  std::vector<float> a = ramp(1001, 17), b = ramp(1001, 23), c(1001, std::nanf(""));
  std::vector<int> count = {1001};
  launch(KERNEL(vector_add), {8, 128, 0}, GENERATE(0, 5), a, b, c, count);
  for (std::size_t i = 0; i < c.size(); ++i) REQUIRE(c[i] == a[i] + b[i]);
}

TEST_CASE("a block's reduction through shared memory is right in any order of threads") {
  std::vector<float> x = ramp(7 * 256, 11), sums(7, 0);
  launch(KERNEL(block_sums), {7, 256, 1024}, GENERATE(0, 1, 2, 3), x, sums);
  for (std::size_t i = 0; i < sums.size(); ++i)
    REQUIRE(sums[i] == std::accumulate(x.begin() + static_cast<long>(i) * 256,
                                       x.begin() + static_cast<long>(i + 1) * 256, 0.0F));
}

TEST_CASE("a missing barrier shows as a wrong sum, if not in order then in a random one") {
  std::vector<float> x = ramp(64 * 256, 11), sums(64, 0), expected(64, 0);
  launch(KERNEL(block_sums), {64, 256, 1024}, 0, x, expected);
  launch(KERNEL(block_sums_race), {64, 256, 1024}, 9, x, sums);
  REQUIRE(sums != expected);
}

TEST_CASE("memory that is written again while others read it shows when warps run ahead") {
  std::vector<float> x = ramp(64, 11), sums(64, 0), ahead(64, 0);
  launch(KERNEL(sums_run_over), {1, 64, 8}, 0, x, sums);
  CHECK(sums == std::vector<float>(64, sums[0]));
  launch(KERNEL(sums_run_over), {1, 64, 8}, 1, x, ahead);
  CHECK(ahead != sums);
}

TEST_CASE("a warp's shuffles give every lane the sum of the warp") {
  std::vector<double> x = ramp<double>(3 * 96, 13), sums(3 * 96, 0);
  launch(KERNEL(warp_sums), {3, 96, 0}, GENERATE(0, 4), x, sums);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto warp = x.begin() + static_cast<long>(i / 32 * 32);
    REQUIRE(sums[i] == std::accumulate(warp, warp + 32, 0.0));
  }
}

TEST_CASE("parts of a warp exchange on their own, with the segments and ends of CUDA's shuffles") {
  std::vector<int> x = ramp<int>(64, 7), sums(64, -1), scans(64, -1), next(64, -1);
  launch(KERNEL(sub_warps), {1, 64, 0}, GENERATE(0, 6), x, sums, scans, next);
  for (std::size_t i = 0; i < 64; ++i) {
    int leader = x[i / 8 * 8], value = x[i];
    for (std::size_t step = 0; step < i % 32 / 8; ++step) {
      value += leader;
      leader += leader;
    }
    INFO("lane " << i);
    REQUIRE(sums[i] == value);
    const auto warp = x.begin() + static_cast<long>(i / 32 * 32);
    REQUIRE(scans[i] == std::accumulate(warp, x.begin() + static_cast<long>(i) + 1, 0));
    REQUIRE(next[i] == (i % 32 == 31 ? x[i] : x[i + 1]));
  }
}

TEST_CASE("votes see every lane of the warp") {
  std::vector<int> x = ramp<int>(64, 8), any_all(64, -1);
  x[40] = -1;
  std::vector<unsigned> ballots(64, 0);
  launch(KERNEL(votes), {1, 64, 0}, 0, x, ballots, any_all);
  REQUIRE(ballots[3] == 0xf0f0f0f0U);
  REQUIRE(ballots[33] == 0xf0f0f0f0U);
  REQUIRE(any_all[5] == 3);
  REQUIRE(any_all[45] == 1);
}

TEST_CASE("a transposition through shared memory, with tiles that hang over") {
  std::vector<int> shape = {45, 71};
  std::vector<float> x(45 * 71), y(45 * 71, std::nanf(""));
  std::iota(x.begin(), x.end(), 0.0F);
  launch(KERNEL(transpose), {6, 256, 32 * 33 * 4}, GENERATE(0, 8), x, y, shape);
  for (std::size_t i = 0; i < 45; ++i) {
    for (std::size_t j = 0; j < 71; ++j) REQUIRE(y[j * 45 + i] == x[i * 71 + j]);
  }
}

TEST_CASE("integer atomics add up over threads and blocks") {
  std::vector<int> x = ramp<int>(40 * 64, 10), counts(10, 0), largest = {-5};
  std::vector<unsigned long long> total = {0};
  launch(KERNEL(histogram), {40, 64, 40}, GENERATE(0, 2), x, counts, total, largest);
  REQUIRE(counts == std::vector<int>(10, 256));
  REQUIRE(total[0] == 2560);
  REQUIRE(largest[0] == 9);
}

TEST_CASE("the twin of ldmatrix gives each lane the elements that the ISA says") {
  std::vector<unsigned> plain(128), transposed(128);
  launch(KERNEL(fragments), {1, 32, 64 * 24}, GENERATE(0, 3), plain, transposed);
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned matrix = 0; matrix < 4; ++matrix) {
      CAPTURE(lane, matrix);
      const unsigned first = 64 * matrix + 8 * (lane / 4) + 2 * (lane % 4);  // row lane / 4, two columns
      REQUIRE(plain[4 * lane + matrix] == (first | (first + 1) << 16));
      const unsigned upper = 64 * matrix + 8 * (2 * (lane % 4)) + lane / 4;  // column lane / 4, two rows
      REQUIRE(transposed[4 * lane + matrix] == (upper | (upper + 8) << 16));
    }
  }
}

TEST_CASE("a lane that runs ahead of its warp changes nothing of what the others load") {
  std::vector<unsigned> words(32);
  launch(KERNEL(fragments_written_over), {1, 32, 512}, GENERATE(0, 1, 2, 3), words);
  for (unsigned lane = 0; lane < 32; ++lane) REQUIRE(words[lane] == 96 + lane);
}

TEST_CASE("the twin of mma multiplies as the tensor core lays it out") {
  std::mt19937 random(3);
  std::vector<unsigned short> a(16 * 16), b(16 * 8);
  for (auto* matrix : {&a, &b}) {
    for (unsigned short& x : *matrix) x = bf16_bits(std::uniform_real_distribution<float>(-1, 1)(random));
  }
  std::vector<float> d(16 * 8, std::nanf(""));
  launch(KERNEL(one_mma), {1, 32, 0}, GENERATE(0, 3), a, b, d);
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 8; ++j) {
      double sum = 1;
      for (std::size_t k = 0; k < 16; ++k)
        sum += static_cast<double>(bf16_value(a[i * 16 + k])) * bf16_value(b[j * 16 + k]);
      REQUIRE(d[i * 8 + j] == Approx(sum).margin(1e-5));
    }
  }
}

TEST_CASE("16-bit conversions round to nearest even, as the evaluator's") {
  std::vector<float> x = {0.0F,        -0.0F,   1.0F,      1.00390625F,
                          1.01171875F, 3.4e38F, 65504.0F,  65520.0F,
                          1e-7F,       6e-8F,   -2.71828F, std::numeric_limits<float>::infinity()};
  std::mt19937 random(1);
  while (x.size() < 1024)
    x.push_back(std::ldexp(std::normal_distribution<float>()(random), static_cast<int>(random() % 40) - 20));
  std::vector<unsigned short> as_bf16(1024), as_f16(1024);
  std::vector<float> from_f16(1024);
  launch(KERNEL(conversions), {8, 128, 0}, 0, x, as_bf16, as_f16, from_f16);
  for (std::size_t i = 0; i < x.size(); ++i) {
    INFO(x[i]);
    REQUIRE(bf16_value(as_bf16[i]) == ir::round_to(ir::DType::bf16, x[i]));
    REQUIRE(from_f16[i] == ir::round_to(ir::DType::f16, x[i]));
  }
}

TEST_CASE("shared memory is NaN before each block") {
  std::vector<float> x(32, 0);
  launch(KERNEL(reads_what_nobody_wrote), {2, 32, 128}, 0, x);
  for (float value : x) REQUIRE(std::isnan(value));
}

std::string failure(const KernelFunction& kernel, const Grid& grid, std::uint64_t order_seed = 0) {
  std::vector<float> x(64, 0);
  return test::message_of<RuntimeFailure>([&] { launch(kernel, grid, order_seed, x); });
}

TEST_CASE("copies into shared memory are there once their thread has finished them, and not before") {
  std::vector<float> x = ramp(64, 11), y(64, 0), early(64, 0);
  std::vector<int> finishes = {1}, offset = {0}, none = {0}, one = {1};
  launch(KERNEL(copies), {1, 32, 260}, GENERATE(0, 4), x, y, finishes, offset);
  for (std::size_t i = 0; i < 32; ++i) {
    REQUIRE(y[2 * i] == x[2 * (31 - i)]);
    REQUIRE(y[2 * i + 1] == x[2 * (31 - i) + 1]);
  }
  launch(KERNEL(copies), {1, 32, 260}, 0, x, early, none, offset);
  for (const float value : early) REQUIRE(std::isnan(value));
  const auto misaligned = [&] { launch(KERNEL(copies), {1, 32, 260}, 0, x, y, finishes, one); };
  CHECK_THAT(test::message_of<RuntimeFailure>(misaligned),
             REWIRE_CATCH_CONTAINS("copy_packet") && REWIRE_CATCH_CONTAINS("not aligned to the packet"));
}

TEST_CASE("a matrix's row that is not aligned is named") {
  CHECK_THAT(failure(KERNEL(fragments_misaligned), {1, 32, 32 * 24}),
             REWIRE_CATCH_CONTAINS("load_matrices") && REWIRE_CATCH_CONTAINS("not aligned to 16 bytes"));
}

TEST_CASE("a barrier that some threads never reach says who waits where") {
  const std::string message = failure(KERNEL(some_skip_the_barrier), {1, 64, 0}, GENERATE(0, 7));
  CHECK_THAT(message, REWIRE_CATCH_CONTAINS("kernel 'some_skip_the_barrier', block 0: threads diverge"));
  CHECK_THAT(message, REWIRE_CATCH_CONTAINS("0-39 finished"));
  CHECK_THAT(message, REWIRE_CATCH_CONTAINS("40-63 wait at __syncthreads in some_skip_the_barrier"));
}

TEST_CASE("barriers at two places of the text do not meet") {
  const std::string message = failure(KERNEL(two_barriers), {1, 4, 0});
  CHECK_THAT(message, REWIRE_CATCH_CONTAINS("0, 2 wait at __syncthreads in two_barriers"));
  CHECK_THAT(message, REWIRE_CATCH_CONTAINS("1, 3 wait at __syncthreads in two_barriers"));
}

TEST_CASE("a barrier against a shuffle diverges") {
  const std::string message = failure(KERNEL(barrier_against_shuffle), {1, 64, 0}, GENERATE(0, 7));
  CHECK_THAT(message, REWIRE_CATCH_CONTAINS("0-34, 36-63 wait at __syncthreads"));
  CHECK_THAT(message, REWIRE_CATCH_CONTAINS("35 wait at __shfl_xor_sync"));
  CHECK_THAT(message, REWIRE_CATCH_CONTAINS("mask 0xffffffff"));
}

TEST_CASE("a shuffle needs every lane of its mask, and the lane itself in it") {
  CHECK_THAT(failure(KERNEL(a_lane_stays_away), {1, 32, 0}), REWIRE_CATCH_CONTAINS("9 finished"));
  CHECK_THAT(failure(KERNEL(a_lane_outside_of_its_mask), {1, 32, 0}),
             REWIRE_CATCH_CONTAINS("thread 0: __shfl_sync") && REWIRE_CATCH_CONTAINS("not in its own mask"));
}

TEST_CASE("a write behind shared memory is found, and a launch no device takes is refused") {
  CHECK_THAT(failure(KERNEL(past_shared_memory), {1, 32, 128}),
             REWIRE_CATCH_CONTAINS("behind its 128 bytes of shared memory"));
  CHECK_THAT(failure(KERNEL(past_shared_memory), {1, 2048, 0}), REWIRE_CATCH_CONTAINS("no device launches"));
}

TEST_CASE("a runner goes on after a launch that failed") {
  GridRunner runner({1});
  std::vector<float> x = ramp(256, 11), sums(1, 0);
  void* const arguments[] = {x.data(), sums.data()};
  CHECK_THROWS_AS(runner.launch(KERNEL(two_barriers), {1, 64, 0}, {arguments, 1}), RuntimeFailure);
  runner.launch(KERNEL(block_sums), {1, 256, 1024}, arguments);
  CHECK(sums[0] == std::accumulate(x.begin(), x.end(), 0.0F));
}

}  // namespace
}  // namespace rewire::cuda_shim
