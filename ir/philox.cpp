// Philox-4x32-10 and the draws that use it. ir/philox.h describes the layout of the counters.
#include "ir/philox.h"

#include <cmath>
#include <numbers>

namespace rewire::ir {
namespace {

constexpr int kRounds = 10;
constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;  // sqrt(3) - 1

std::uint32_t high_word(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}
std::uint32_t low_word(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}

}  // namespace

PhiloxBlock philox4x32_10(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {high_word(product1) ^ counter[1] ^ key[0], low_word(product1),
               high_word(product0) ^ counter[3] ^ key[1], low_word(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

std::uint64_t stream_hash(std::string_view stream) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (char c : stream) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
  return hash;
}

std::uint32_t PhiloxStream::bits(std::uint64_t index) const {
  const std::uint64_t block = index / 4;
  const std::uint32_t step_word = step + high_word(block) * 2654435761U;
  return philox4x32_10({low_word(block), low_word(stream), high_word(stream), step_word},
                       {low_word(seed), high_word(seed)})[index % 4];
}

double PhiloxStream::uniform(std::uint64_t index) const {
  return static_cast<double>(bits(index) >> 8) * 0x1p-24;
}

double PhiloxStream::normal(std::uint64_t index) const {
  const std::uint64_t even = index & ~std::uint64_t{1};
  const double radius = std::sqrt(-2.0 * std::log1p(-uniform(even)));
  const double angle = 2.0 * std::numbers::pi * uniform(even + 1);
  return index == even ? radius * std::cos(angle) : radius * std::sin(angle);
}

}  // namespace rewire::ir
