// tiktoken's vocabulary: a line for each token, its bytes in base64 and its rank, which is its id. Neighbours
// are joined if they make a token; its rank is that of the join.
#include <fmt/format.h>
#include <llvm/Support/Base64.h>
#include <llvm/Support/Error.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "codegen/files/digest.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/text/tokenizers/byte_pairs.h"
#include "runtime/data/text/tokenizers/rows.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kMostRankBytes = std::size_t{1} << 28;

/// OpenAI's vocabularies of other patterns, by their numbers of ranks.
struct OtherPattern {
  std::size_t ranks;
  std::string_view name;
};
constexpr OtherPattern kOtherPatterns[] = {{100256, "cl100k_base"}, {199998, "o200k_base"}};

/// Returns the token and the rank of a line; "" if it is none.
std::pair<std::string, std::int64_t> parse_rank(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return {};
  std::vector<char> token;
  std::int64_t rank = -1;
  const auto [end, error] = std::from_chars(line.data() + space + 1, line.data() + line.size(), rank);
  const bool is_bad = llvm::errorToBool(llvm::decodeBase64({line.data(), space}, token));
  if (is_bad || error != std::errc() || end != line.data() + line.size() || rank < 0) return {};
  return {std::string(token.begin(), token.end()), rank};
}

void add_joins(BytePairs& pairs, const std::unordered_map<std::string_view, std::int32_t>& ids) {
  for (const auto& [token, id] : ids) {
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = ids.find(token.substr(0, cut)), right = ids.find(token.substr(cut));
      if (left != ids.end() && right != ids.end())
        pairs.joins[BytePairs::key(left->second, right->second)] = {id, id};
    }
  }
}

}  // namespace

std::unique_ptr<const Tokenizer> make_tiktoken(const std::string& file) {
  const std::string name = visible(file);
  const std::vector<std::byte> bytes = read_file(file, kMostRankBytes);
  BytePairs pairs;
  pairs.digest = codegen::digest_hex(bytes);
  pairs.whole_words = true;
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    auto [token, rank] = parse_rank(line);
    // Each token takes more than a byte, so ranks beyond that leave gaps larger than the vocabulary.
    if (token.empty() || std::cmp_greater_equal(rank, bytes.size()))
      user_error("{}:{}: '{}' is not base64 and a rank of a file of this size", name, number,
                 printable(line));
    const auto place = static_cast<std::size_t>(rank);
    if (pairs.tokens.size() <= place) pairs.tokens.resize(place + 1);
    if (!pairs.tokens[place].empty()) user_error("{}:{}: the rank {} comes twice", name, number, rank);
    pairs.tokens[place] = std::move(token);
  }
  std::unordered_map<std::string_view, std::int32_t> ids;
  for (std::size_t id = 0; id < pairs.tokens.size(); ++id) {
    if (!pairs.tokens[id].empty() && !ids.emplace(pairs.tokens[id], static_cast<std::int32_t>(id)).second)
      user_error("{}: the token of rank {} comes twice", name, id);
  }
  for (const auto& [ranks, other] : kOtherPatterns) {
    if (ids.size() == ranks)
      user_error(
          "{}: its {} ranks are those of {}, which cuts words by another pattern: take r50k_base, "
          "p50k_base or a vocabulary of your own with GPT-2's pattern",
          name, ranks, other);
  }
  for (std::size_t byte = 0; byte < pairs.bytes.size(); ++byte) {
    const char one = static_cast<char>(byte);
    const auto id = ids.find(std::string_view(&one, 1));
    if (id == ids.end()) user_error("{}: it has no token for the byte {}", name, byte);
    pairs.bytes[byte] = id->second;
  }
  add_joins(pairs, ids);
  // The end of a document has the first free id: 50256 in r50k_base and p50k_base.
  const auto gap = std::ranges::find(pairs.tokens, std::string());
  pairs.end = static_cast<std::int32_t>(gap - pairs.tokens.begin());
  if (gap == pairs.tokens.end()) pairs.tokens.emplace_back();
  return std::make_unique<ByteLevelTokenizer>(std::move(pairs));
}

}  // namespace rewire::runtime
