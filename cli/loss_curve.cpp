#include "cli/loss_curve.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace rewire::cli {
namespace {

constexpr std::size_t kBins = 128;  // at most; if there are more, pairs are merged
constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 8> kAscii = {"_", ".", ",", "-", "~", "=", "+", "^"};

}  // namespace

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string text(value);
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
  }
  return false;
}

void LossCurve::add(double loss) {
  if (!std::isfinite(loss)) return;
  if (bins_.empty() || bins_.back().steps == steps_of_bin_) {
    if (bins_.size() == kBins) {
      for (std::size_t i = 0; i < kBins / 2; ++i) {
        const Bin &first = bins_[2 * i], &second = bins_[2 * i + 1];
        bins_[i] = {first.sum + second.sum, first.steps + second.steps};
      }
      bins_.resize(kBins / 2);
      steps_of_bin_ *= 2;
    }
    bins_.emplace_back();
  }
  bins_.back().sum += loss;
  ++bins_.back().steps;
}

std::string LossCurve::text(std::size_t columns, bool utf8) const {
  const std::size_t count = std::min(columns, bins_.size());
  if (count < 2) return "";
  std::vector<Bin> joined(count);
  for (std::size_t i = 0; i < bins_.size(); ++i) {
    Bin& bin = joined[i * count / bins_.size()];
    bin.sum += bins_[i].sum;
    bin.steps += bins_[i].steps;
  }
  std::vector<double> means;
  for (const Bin& bin : joined) means.push_back(bin.sum / static_cast<double>(bin.steps));
  const auto [low, high] = std::ranges::minmax(means);
  const auto& levels = utf8 ? kBlocks : kAscii;
  std::string text;
  for (const double mean : means) {
    const double height = high > low ? (mean - low) / (high - low) : 0;
    text += levels[static_cast<std::size_t>(std::lround(height * static_cast<double>(levels.size() - 1)))];
  }
  return text;
}

}  // namespace rewire::cli
