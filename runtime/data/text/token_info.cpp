#include "runtime/data/text/token_info.h"

#include <algorithm>
#include <unordered_map>

#include "runtime/io/sha256.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kMostFrequent = 10;

void set_files(const TokenSource& source, TokenFacts& facts) {
  if (const auto& text = source.options().text) {
    facts.sha256 = text->sha256;
    facts.text_bytes = text->bytes;
    facts.text_documents = text->documents;
    return;
  }
  Sha256 digest;
  for (const auto& file : source.stream().files()) {
    const std::string type(name_of(file->type()));
    if (std::ranges::find(facts.types, type) == facts.types.end()) facts.types.push_back(type);
    digest.update(file->file_bytes());
  }
  facts.sha256 = digest.hex();
}

}  // namespace

TokenFacts examine_tokens(const TokenSource& source) {
  const std::shared_ptr<const Tokenizer>& tokenizer = source.options().tokenizer;
  TokenFacts facts;
  facts.tokens = source.stream().count();
  facts.vocabulary = tokenizer ? tokenizer->vocabulary() : 0;
  std::unordered_map<std::int32_t, std::int64_t> counts;
  source.stream().for_each(
      [&](std::span<const std::int32_t> ids) {
        for (const std::int32_t id : ids) ++counts[id];
      },
      tokenizer ? facts.vocabulary : kAnyToken);
  facts.seen = std::ssize(counts);
  const auto [least, greatest] =
      std::ranges::minmax_element(counts, {}, [](const auto& entry) { return entry.first; });
  facts.least = least->first;
  facts.greatest = greatest->first;
  for (const auto& [id, count] : counts) {
    facts.frequent.push_back({id, count, ""});
    if (tokenizer) facts.bytes += count * std::ssize(tokenizer->text_of(id));
  }
  const auto last =
      facts.frequent.begin() + static_cast<std::ptrdiff_t>(std::min(kMostFrequent, facts.frequent.size()));
  std::ranges::partial_sort(facts.frequent, last, [](const TokenCount& one, const TokenCount& other) {
    return std::pair(-one.count, one.id) < std::pair(-other.count, other.id);
  });
  facts.frequent.erase(last, facts.frequent.end());
  for (TokenCount& entry : facts.frequent) {
    if (tokenizer) entry.text = tokenizer->text_of(entry.id);
  }
  if (source.options().separator >= 0)
    for_each_document(source.stream(), source.options().separator,
                      [&](std::int64_t, std::int64_t) { ++facts.documents; });
  set_files(source, facts);
  return facts;
}

}  // namespace rewire::runtime
