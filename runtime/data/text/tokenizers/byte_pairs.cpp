#include "runtime/data/text/tokenizers/byte_pairs.h"

#include <functional>
#include <queue>
#include <utility>

namespace rewire::runtime {
namespace {

/// A pair of neighbours that can be joined. The queue gives the lowest rank, then the leftmost.
struct Candidate {
  std::int32_t rank = 0;
  std::int32_t left = 0, right = 0;  // places of the two
  std::int32_t left_id = 0, right_id = 0, id = 0;
  bool operator>(const Candidate& other) const {
    return std::pair(rank, left) > std::pair(other.rank, other.left);
  }
};

/// Tokens of a word as a list; place i began as byte i.
struct Link {
  std::int32_t id = 0;  // -1: joined to the one before
  std::int32_t before = 0, after = 0;
};

}  // namespace

ByteLevelTokenizer::ByteLevelTokenizer(BytePairs pairs) : pairs_(std::move(pairs)) {
  for (std::size_t id = 0; id < pairs_.tokens.size(); ++id) {
    if (!pairs_.tokens[id].empty()) ids_.emplace(pairs_.tokens[id], static_cast<std::int32_t>(id));
  }
}

std::string_view ByteLevelTokenizer::text_of(std::int32_t id) const {
  if (id < 0 || id >= vocabulary()) return {};
  return pairs_.tokens[static_cast<std::size_t>(id)];
}

void ByteLevelTokenizer::encode(std::string_view text, std::string_view name, const TakeTokens& take) const {
  constexpr std::size_t kMostKept = std::size_t{1} << 16, kLongestKept = 64, kPiece = std::size_t{1} << 16;
  require_utf8(text, name);
  std::vector<std::int32_t> ids, of_word;
  std::unordered_map<std::string_view, std::vector<std::int32_t>> kept;  // most words of a text come again
  words_.for_each(text, [&](std::string_view word) {
    if (const auto found = kept.find(word); found != kept.end()) {
      ids.insert(ids.end(), found->second.begin(), found->second.end());
    } else {
      of_word.clear();
      encode_word(word, of_word);
      ids.insert(ids.end(), of_word.begin(), of_word.end());
      if (kept.size() < kMostKept && word.size() <= kLongestKept) kept.emplace(word, of_word);
    }
    if (ids.size() < kPiece) return;
    take(ids);
    ids.clear();
  });
  if (!ids.empty()) take(ids);
}

void ByteLevelTokenizer::encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (pairs_.whole_words) {
    if (const auto whole = ids_.find(word); whole != ids_.end()) {
      ids.push_back(whole->second);
      return;
    }
  }
  thread_local std::vector<Link> links;
  links.clear();
  const auto count = static_cast<std::int32_t>(word.size());
  for (std::int32_t i = 0; i < count; ++i)
    links.push_back(
        {pairs_.bytes[static_cast<unsigned char>(word[static_cast<std::size_t>(i)])], i - 1, i + 1});
  const auto at = [](std::int32_t place) -> Link& { return links[static_cast<std::size_t>(place)]; };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto add = [&](std::int32_t left, std::int32_t right) {
    if (left < 0 || right >= count) return;
    const auto join = pairs_.joins.find(BytePairs::key(at(left).id, at(right).id));
    if (join == pairs_.joins.end()) return;
    queue.push({join->second.rank, left, right, at(left).id, at(right).id, join->second.id});
  };
  for (std::int32_t i = 0; i + 1 < count; ++i) add(i, i + 1);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    // One of the two may have been joined to another meanwhile.
    if (at(best.left).id != best.left_id || at(best.left).after != best.right ||
        at(best.right).id != best.right_id)
      continue;
    Link& left = at(best.left);
    left.id = best.id;
    left.after = at(best.right).after;
    at(best.right).id = -1;
    if (left.after < count) at(left.after).before = best.left;
    add(left.before, best.left);
    add(best.left, left.after);
  }
  for (std::int32_t i = 0; i < count; i = at(i).after) ids.push_back(at(i).id);
}

}  // namespace rewire::runtime
