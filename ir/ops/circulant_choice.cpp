// Which lowering of a block-circulant product takes least time; see ir/ops/circulant.h. The time of a row, in
// operations of a large matrix product:
//
//   dense  2 q n p n
//   split  2 q n p n share(R) / efficiency(R) + kPerElement for each element of x and y
//   fft    2.5 (p + q) n log2 n kFftSlowness + 4 p q n kPointwiseSlowness + kPerElement, likewise
#include <algorithm>
#include <cmath>

#include "ir/ops/circulant.h"

namespace rewire::ir {
namespace {

/// Operations of a matrix product in the time that one element of a stream takes to be written and read
/// again.
constexpr double kPerElement = 64;
/// Of the FFT library, and of a fused kernel, against a matrix product.
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

std::string_view choose_circulant_lowering(const CirculantSizes& sizes, DType dtype) {
  if (dtype == DType::bf16 || dtype == DType::f16) return "dense";  // the transforms would round on their way
  const auto inputs = static_cast<double>(sizes.inputs * sizes.lags);
  const auto outputs = static_cast<double>(sizes.outputs * sizes.lags);
  std::string_view best = "dense";
  double time = 2 * inputs * outputs;
  const auto consider = [&](std::string_view lowering, double other) {
    if (other < time) best = lowering, time = other;
  };
  for (const std::string_view split : {"split2", "split4", "split8"}) {
    const int radix = split_radix(split);
    if (sizes.lags % radix == 0) consider(split, split_time(inputs, outputs, radix));
  }
  if (sizes.lags > 1) consider("fft", fft_time(inputs, outputs, static_cast<double>(sizes.lags)));
  return best;
}

}  // namespace rewire::ir
