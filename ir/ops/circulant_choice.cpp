// Orders the lowerings of a block-circulant product by their estimated time; see ir/ops/circulant.h. The
// time of a row, in operations of a large matrix product:
//
//   dense  2 q n p n
//   split  2 q n p n share(R) / efficiency(R) + kPerElement for each element of x and y
//   fft    2.5 (p + q) n log2 n kFftSlowness + 4 p q n kPointwiseSlowness + the same kPerElement term
#include <algorithm>
#include <cmath>
#include <utility>

#include "ir/ops/circulant.h"

namespace rewire::ir {
namespace {

/// The number of matrix-product operations that take as long
/// as writing one element of a stream and reading it again.
constexpr double kPerElement = 64;
/// The slowness of the FFT library, and of a fused pointwise kernel, relative to a matrix product.
constexpr double kFftSlowness = 14, kPointwiseSlowness = 8;
/// Blocks with fewer columns than this do not fill the matrix product's tiles.
constexpr double kFullWidth = 64;

double split_time(double inputs, double outputs, int radix) {
  const double complex_bins = radix / 2 - 1;
  const double share = (2 + 4 * complex_bins) / (radix * radix);
  const double narrowest = std::min(inputs, outputs) / radix;
  const double efficiency = std::min(1.0, narrowest / kFullWidth);
  return 2 * inputs * outputs * share / efficiency + 2 * kPerElement * (inputs + outputs);
}

double fft_time(double inputs, double outputs, double lags) {
  const double transforms = 2.5 * (inputs + outputs) * std::log2(lags) * kFftSlowness;
  const double products = 4 * inputs * outputs / lags * kPointwiseSlowness;
  return transforms + products + 2 * kPerElement * (inputs + outputs);
}

}  // namespace

int split_radix(std::string_view lowering) {
  return lowering.starts_with("split") ? lowering.back() - '0' : 1;
}

std::vector<std::string> circulant_candidates(const CirculantSizes& sizes, DType dtype) {
  if (dtype == DType::bf16 || dtype == DType::f16)
    return {"dense"};  // the transforms would round their inner values
  const auto inputs = static_cast<double>(sizes.inputs * sizes.lags);
  const auto outputs = static_cast<double>(sizes.outputs * sizes.lags);
  std::vector<std::pair<double, std::string>> timed = {{2 * inputs * outputs, "dense"}};
  for (const char* split : {"split2", "split4", "split8"}) {
    const int radix = split_radix(split);
    if (sizes.lags % radix == 0) timed.emplace_back(split_time(inputs, outputs, radix), split);
  }
  if (sizes.lags > 1) timed.emplace_back(fft_time(inputs, outputs, static_cast<double>(sizes.lags)), "fft");
  std::ranges::stable_sort(timed, {}, &std::pair<double, std::string>::first);
  std::vector<std::string> candidates;
  for (auto& [time, lowering] : timed) candidates.push_back(std::move(lowering));
  return candidates;
}

}  // namespace rewire::ir
