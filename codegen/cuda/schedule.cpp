// Schedules as text; see schedule.h.
#include "codegen/cuda/schedule.h"

#include <fmt/ranges.h>

#include <charconv>

namespace rewire::codegen::cuda {
namespace {

constexpr std::size_t kMostDigits = 6;  // per number, so that a product of two fits 64 bits

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Returns every number in a text; nothing if one has too many digits.
std::vector<int> numbers_in(std::string_view text) {
  std::vector<int> numbers;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (end - at > kMostDigits) return {};
    if (end > at) std::from_chars(text.data() + at, text.data() + end, numbers.emplace_back());
    at = end + 1;
  }
  return numbers;
}

}  // namespace

std::string schedule_text(const Schedule& schedule) {
  if (const auto* rows = std::get_if<RowsSchedule>(&schedule))
    return fmt::format("rows: vector {}, threads {}, chunks {}, groups {}, repeats {}, resident {}",
                       rows->vector, rows->threads, rows->chunks, rows->groups, rows->repeats,
                       rows->resident_blocks);
  if (const auto* transpose = std::get_if<TransposeSchedule>(&schedule))
    return fmt::format("transpose: threads {}, resident {}, tile {}", transpose->threads,
                       transpose->resident_blocks, fmt::join(transpose->tile, " "));
  const auto& block = std::get<BlockSchedule>(schedule);
  return fmt::format("block: threads {}, resident {}{}{}", block.threads, block.resident_blocks,
                     block.widths.empty() ? "" : ", widths ", fmt::join(block.widths, " "));
}

std::optional<Schedule> parse_schedule(std::string_view text) {
  const std::vector<int> n = numbers_in(text);
  Schedule schedule;
  if (text.starts_with("rows:") && n.size() == 6) {
    schedule = RowsSchedule{n[0], n[1], n[2], n[3], n[4], n[5]};
  } else if (text.starts_with("block:") && n.size() >= 2) {
    schedule = BlockSchedule{n[0], n[1], {n.begin() + 2, n.end()}};
  } else if (text.starts_with("transpose:") && n.size() >= 3) {
    schedule = TransposeSchedule{n[0], n[1], {n.begin() + 2, n.end()}};
  } else {
    return std::nullopt;
  }
  if (schedule_text(schedule) != text) return std::nullopt;
  return schedule;
}

}  // namespace rewire::codegen::cuda
