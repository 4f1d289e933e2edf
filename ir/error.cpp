#include "ir/error.h"

#include <algorithm>
#include <numeric>

#include "ir/printable.h"

namespace rewire {
namespace {

constexpr std::size_t kLongestMessage = 2000;  // bytes of foreign text in a message

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replace});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_match(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = 2 + name.size() / 3;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string match = nearest_match(name, candidates);
  return match.empty() ? std::string() : fmt::format(" (did you mean '{}'?)", match);
}

std::string one_line(std::string_view message) {
  const std::string_view kept = cut(message, kLongestMessage);
  return blanked(kept) + (kept.size() < message.size() ? " …" : "");
}

std::string few_lines(std::string_view message) {
  constexpr int kMostLines = 8;
  const std::string_view kept = cut(message, kLongestMessage);
  std::string lines;
  std::size_t begin = 0;
  for (int line = 0; begin <= kept.size(); ++line) {
    if (line == kMostLines) return lines + " …";
    const std::size_t end = std::min(kept.find('\n', begin), kept.size());
    if (line > 0) lines += '\n';
    lines += blanked(kept.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines + (kept.size() < message.size() ? " …" : "");
}

}  // namespace rewire
