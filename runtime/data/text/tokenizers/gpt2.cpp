// GPT-2's vocabulary: vocab.json (encoder.json) gives ids, merges.txt (vocab.bpe) a join of two tokens a line,
// the first with the lowest rank. Both write a byte as one character: the printable characters of Latin-1 as
// themselves, the other bytes, in their order, as U+0100 and up.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "codegen/files/digest.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/text/tokenizers/byte_pairs.h"
#include "runtime/data/text/tokenizers/rows.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"

namespace rewire::runtime {
namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr std::size_t kMostVocabularyBytes = std::size_t{1} << 28;

/// Returns the byte that each of these characters means.
std::map<char32_t, char> byte_characters() {
  std::map<char32_t, char> bytes;
  char32_t next = 256;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool is_itself = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    bytes.emplace(is_itself ? byte : next++, static_cast<char>(byte));
  }
  return bytes;
}

/// Returns the bytes of a token as the files write it; "" if a character is no byte's: the token is a special
/// one.
std::string bytes_of_token(std::string_view written, const std::map<char32_t, char>& bytes) {
  std::string token;
  while (!written.empty()) {
    const TextCharacter character = first_character(written);
    const auto byte = bytes.find(character.code);
    if (!character.valid || byte == bytes.end()) return {};
    token += byte->second;
    written.remove_prefix(character.bytes.size());
  }
  return token;
}

std::string one_of(const std::string& folder, const std::string& first, const std::string& second) {
  for (const std::string& name : {first, second}) {
    std::string path = (std::filesystem::path(folder) / name).string();
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  user_error("{}: it has neither {} nor {}", visible(folder), first, second);
}

std::string_view text_in(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::unique_ptr<const Tokenizer> make_gpt2(const std::string& folder) {
  const std::string vocabulary = one_of(folder, "vocab.json", "encoder.json"),
                    merges = one_of(folder, "merges.txt", "vocab.bpe");
  const std::string vocabulary_name = visible(vocabulary), merges_name = visible(merges);
  const std::vector<std::byte> vocabulary_bytes = read_file(vocabulary, kMostVocabularyBytes),
                               merges_bytes = read_file(merges, kMostVocabularyBytes);
  const std::map<char32_t, char> characters = byte_characters();
  BytePairs pairs;
  codegen::Digest digest;
  digest.update(vocabulary_bytes);
  digest.update(merges_bytes);
  pairs.digest = digest.hex();
  std::unordered_map<std::string, std::int32_t> ids;  // by the token as it is written
  for (auto& [token, id] : parse_json_counts(text_in(vocabulary_bytes), vocabulary_name)) {
    // Each token takes more than a byte, so ids beyond that leave gaps larger than the vocabulary.
    if (std::cmp_greater_equal(id, vocabulary_bytes.size()))
      user_error("{}: the token '{}' has the id {}, too large for this file", vocabulary_name,
                 printable(token), id);
    const auto place = static_cast<std::size_t>(id);
    if (pairs.tokens.size() <= place) pairs.tokens.resize(place + 1);
    if (token == kEndOfText) {
      pairs.end = static_cast<std::int32_t>(id);
      continue;
    }
    if (!pairs.tokens[place].empty())
      user_error("{}: '{}' has the id {} of another token", vocabulary_name, printable(token), id);
    pairs.tokens[place] = bytes_of_token(token, characters);
    ids.emplace(std::move(token), static_cast<std::int32_t>(id));
  }
  pairs.bytes.fill(-1);
  for (std::size_t id = 0; id < pairs.tokens.size(); ++id) {
    if (pairs.tokens[id].size() == 1)
      pairs.bytes[static_cast<unsigned char>(pairs.tokens[id].front())] = static_cast<std::int32_t>(id);
  }
  for (std::size_t byte = 0; byte < pairs.bytes.size(); ++byte) {
    if (pairs.bytes[byte] < 0) user_error("{}: it has no token for the byte {}", vocabulary_name, byte);
  }
  std::string_view text = text_in(merges_bytes);
  for (std::int64_t number = 1, rank = 0; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    const std::size_t space = line.find(' ');
    const std::string left(line.substr(0, space)),
        right(space == std::string_view::npos ? std::string_view() : line.substr(space + 1));
    const auto first = ids.find(left), second = ids.find(right), both = ids.find(left + right);
    if (right.empty() || first == ids.end() || second == ids.end() || both == ids.end())
      user_error("{}:{}: '{}' is not two tokens of {} that make a third", merges_name, number,
                 printable(line), vocabulary_name);
    pairs.joins[BytePairs::key(first->second, second->second)] = {static_cast<std::int32_t>(rank++),
                                                                  both->second};
  }
  return std::make_unique<ByteLevelTokenizer>(std::move(pairs));
}

}  // namespace rewire::runtime
