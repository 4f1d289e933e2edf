#include "runtime/exec/cpu/packing.h"

#include <algorithm>
#include <cstring>

namespace rewire::runtime {
namespace {

/// Copies k steps of one panel of `width` lines; the lines lie side by side.
template <std::int64_t width>
void copy_steps(const float* from, std::int64_t k_stride, std::int64_t k, float* to) {
  for (std::int64_t j = 0; j < k; ++j)
    std::memcpy(to + j * width, from + j * k_stride, width * sizeof(float));
}

using Four = float __attribute__((vector_size(4 * sizeof(float))));

/// Transposes four lines of four elements that are `stride` apart: to[j * width + line].
void turn_block(const float* from, std::int64_t stride, std::int64_t width, float* to) {
  const auto line = [&](std::int64_t i) {
    Four elements;
    std::memcpy(&elements, from + i * stride, sizeof elements);
    return elements;
  };
  const Four a = line(0), b = line(1), c = line(2), d = line(3);
  const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
             ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5),
             cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Four rows[] = {__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
                       __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
                       __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                       __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
  for (std::int64_t j = 0; j < 4; ++j) std::memcpy(to + j * width, &rows[j], sizeof rows[j]);
}

/// Transposes one panel of lines, whose elements lie side by side.
void turn_panel(const float* from, std::int64_t stride, std::int64_t lines, std::int64_t k,
                std::int64_t width, float* to) {
  const std::int64_t whole_lines = lines / 4 * 4, whole_k = k / 4 * 4;
  for (std::int64_t j = 0; j < whole_k; j += 4) {
    for (std::int64_t line = 0; line < whole_lines; line += 4)
      turn_block(from + line * stride + j, stride, width, to + j * width + line);
  }
  for (std::int64_t line = 0; line < lines; ++line) {
    for (std::int64_t j = line < whole_lines ? whole_k : 0; j < k; ++j)
      to[j * width + line] = from[line * stride + j];
  }
}

}  // namespace

void copy_steps(const float* from, std::int64_t k_stride, std::int64_t k, std::int64_t width, float* to) {
  switch (width) {  // the widths of ProductBlock, each copied by vectors
    case 6:
      return copy_steps<6>(from, k_stride, k, to);
    case 8:
      return copy_steps<8>(from, k_stride, k, to);
    case 14:
      return copy_steps<14>(from, k_stride, k, to);
    case 16:
      return copy_steps<16>(from, k_stride, k, to);
    case 32:
      return copy_steps<32>(from, k_stride, k, to);
    default:
      for (std::int64_t j = 0; j < k; ++j) std::copy_n(from + j * k_stride, width, to + j * width);
  }
}

void pack_panels(const float* from, std::int64_t line_stride, std::int64_t k_stride, std::int64_t lines,
                 std::int64_t k, std::int64_t width, float* to, std::int64_t apart) {
  const std::int64_t panels = lines / width, rest = lines % width;
  float* const last = to + panels * apart;
  if (rest > 0) std::fill_n(last, width * k, 0.0F);
  if (line_stride == 1) {
    // Packs a few steps of all panels at a time. The lines of a step share cache lines, and a cache maps the
    // panels to the same places because of their distance.
    constexpr std::int64_t kSteps = 16;
    for (std::int64_t j = 0; j < k; j += kSteps) {
      const std::int64_t steps = std::min(kSteps, k - j);
      const float* const row = from + j * k_stride;
      for (std::int64_t panel = 0; panel < panels; ++panel)
        copy_steps(row + panel * width, k_stride, steps, width, to + panel * apart + j * width);
      for (std::int64_t step = 0; rest > 0 && step < steps; ++step)
        std::copy_n(row + step * k_stride + panels * width, rest, last + (j + step) * width);
    }
    return;
  }
  for (std::int64_t first = 0; first < lines; first += width) {
    turn_panel(from + first * line_stride, line_stride, std::min(width, lines - first), k, width,
               to + first / width * apart);
  }
}

}  // namespace rewire::runtime
