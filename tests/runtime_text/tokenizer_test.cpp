// Tokenizers: the ids of Hugging Face tokenizers, tiktoken and SentencePiece (tests/reference/tokens.py), their
// text back, and what is refused.
#include <algorithm>
#include <cstdlib>
#include <queue>
#include <random>

#include "ir/error.h"
#include "runtime/data/text/tokenizer.h"
#include "runtime/data/text/tokenizers/byte_pairs.h"
#include "runtime/io/safetensors.h"
#include "tests/runtime_text/token_files.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using test::message_of;
using test::TokenTree;
using Ids = std::vector<std::int32_t>;

const std::string kFolder = std::string(REWIRE_GOLDENS) + "/tokenizer";

Ids encoded(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, "text", [&](std::span<const std::int32_t> piece) {
    ids.insert(ids.end(), piece.begin(), piece.end());
  });
  return ids;
}

std::string decoded(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text;
  for (const std::int32_t id : ids) text += tokenizer.text_of(id);
  return text;
}

/// Holds each case of the goldens to the tokenizer; returns their number.
int check_goldens(const std::string& kind, const Tokenizer& tokenizer, bool is_lossless) {
  const TensorMap tensors = read_safetensors(std::string(REWIRE_GOLDENS) + "/tokens.safetensors").tensors;
  int cases = 0;
  for (const auto& [name, tensor] : tensors) {
    if (!name.ends_with(".text")) continue;
    const std::string test = name.substr(0, name.size() - 5);
    CAPTURE(kind, test);
    const std::span<const std::byte> bytes = tensor.bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const Ids ids = encoded(tokenizer, text);
    const auto wanted = tensors.find(test + "." + kind);
    const auto expected = wanted == tensors.end() ? std::span<const std::int32_t>()
                                                  : std::as_const(wanted->second).as<const std::int32_t>();
    CHECK(ids == Ids(expected.begin(), expected.end()));
    if (is_lossless) CHECK(decoded(tokenizer, ids) == text);
    ++cases;
  }
  return cases;
}

TEST_CASE("GPT-2's files give the ids of Hugging Face tokenizers") {
  const auto tokenizer = make_tokenizer("gpt2:" + kFolder);
  CHECK(tokenizer->vocabulary() == 701);
  CHECK(tokenizer->end() == 700);
  CHECK(tokenizer->text_of(700).empty());
  CHECK(tokenizer->text_of(-1).empty());
  CHECK(tokenizer->text_of(701).empty());
  CHECK(check_goldens("gpt2", *tokenizer, true) == 54);
}

TEST_CASE("A tiktoken file gives the ids of tiktoken") {
  const auto tokenizer = make_tokenizer("tiktoken:" + kFolder + "/ranks.tiktoken");
  CHECK(check_goldens("tiktoken", *tokenizer, true) == 54);
  CHECK(tokenizer->end() == tokenizer->vocabulary() - 1);
}

TEST_CASE("A SentencePiece model gives the ids of SentencePiece") {
  const auto unigram = make_tokenizer("sentencepiece:" + kFolder + "/unigram.model"),
             bpe = make_tokenizer("sentencepiece:" + kFolder + "/bpe.model");
  CHECK(unigram->vocabulary() == 500);
  CHECK(unigram->end() == 2);
  CHECK(check_goldens("unigram", *unigram, false) == 54);
  CHECK(check_goldens("bpe", *bpe, false) == 54);
  CHECK(decoded(*unigram, encoded(*unigram, "a residual stream: 東京")) == " a residual stream: 東京");
  CHECK(unigram->text_of(2).empty());
  CHECK(encoded(*unigram, "").empty());
  CHECK(message_of<UserError>([&] { encoded(*unigram, "a\x80"); }) ==
        "text: byte 1 is not UTF-8: convert the file, or use data.tokenizer=bytes");
}

TEST_CASE("A model that is none, and a worker that is not there, are errors of one line") {
  const TokenTree tree;
  tree.write("x.model", "no model");
  const std::string message =
      message_of<UserError>([&] { make_tokenizer("sentencepiece:" + tree.file("x.model")); });
  CHECK(message.starts_with(tree.file("x.model") + ": SentencePiece: "));
  CHECK(message.find('\n') == std::string::npos);
  ::setenv("REWIRE_SPM_WORKER", "/nowhere/worker", 1);
  CHECK(message_of<UserError>([&] { make_tokenizer("sentencepiece:" + kFolder + "/bpe.model"); }) ==
        "cannot start /nowhere/worker, which reads SentencePiece models: No such file or directory");
  ::setenv("REWIRE_SPM_WORKER", "/bin/true", 1);
  CHECK(message_of<UserError>([&] { make_tokenizer("sentencepiece:" + kFolder + "/bpe.model"); }) ==
        kFolder + "/bpe.model: the SentencePiece worker has ended");
  ::unsetenv("REWIRE_SPM_WORKER");
}

TEST_CASE("Byte-pair encoding joins the lowest rank first, and the leftmost of equals") {
  const std::uint32_t seed = 771;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 60; ++trial) {
    // A vocabulary of bytes and random joins of two earlier tokens of the letters a, b, c.
    BytePairs pairs;
    for (int byte = 0; byte < 256; ++byte) {
      pairs.tokens.emplace_back(1, static_cast<char>(byte));
      pairs.bytes[static_cast<std::size_t>(byte)] = byte;
    }
    std::vector<std::int32_t> letters = {'a', 'b', 'c'};
    for (std::int32_t rank = 0; rank < 12; ++rank) {
      const std::int32_t left = letters[random() % letters.size()],
                         right = letters[random() % letters.size()];
      const auto id = static_cast<std::int32_t>(pairs.tokens.size());
      if (!pairs.joins.try_emplace(BytePairs::key(left, right), BytePairs::Join{rank, id}).second) continue;
      pairs.tokens.push_back(pairs.tokens[static_cast<std::size_t>(left)] +
                             pairs.tokens[static_cast<std::size_t>(right)]);
      letters.push_back(id);
    }
    std::string word;
    const std::size_t length = random() % 40;
    for (std::size_t i = 0; i < length; ++i) word += static_cast<char>('a' + random() % 3);
    Ids ids(word.begin(), word.end());
    while (true) {  // one join at a time, over the whole word
      std::pair<std::int32_t, std::size_t> best{1 << 30, 0};
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto join = pairs.joins.find(BytePairs::key(ids[i], ids[i + 1]));
        if (join != pairs.joins.end()) best = std::min(best, {join->second.rank, i});
      }
      if (best.first == 1 << 30) break;
      ids[best.second] = pairs.joins.at(BytePairs::key(ids[best.second], ids[best.second + 1])).id;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best.second) + 1);
    }
    CAPTURE(trial, word);
    CHECK(encoded(ByteLevelTokenizer(std::move(pairs)), word) == ids);
  }
}

TEST_CASE("Bytes are their own ids, in any encoding, and 256 ends a document") {
  const auto tokenizer = make_tokenizer("bytes");
  std::string all;
  for (int round = 0; round < 300; ++round) {
    for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  }
  const Ids ids = encoded(*tokenizer, all);
  REQUIRE(ids.size() == all.size());
  for (std::size_t i = 0; i < ids.size(); ++i) CHECK(std::cmp_equal(ids[i], i % 256));
  CHECK(decoded(*tokenizer, ids) == all);
  CHECK(tokenizer->vocabulary() == 257);
  CHECK(tokenizer->end() == 256);
  CHECK(tokenizer->text_of(256).empty());
}

TEST_CASE("Text that is not UTF-8 is refused at its first bad byte") {
  const auto gpt2 = make_tokenizer("gpt2:" + kFolder);
  for (const std::string bad : {"\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"}) {
    CAPTURE(bad);
    CHECK(message_of<UserError>([&] { encoded(*gpt2, "né" + bad + "x"); }) ==
          "text: byte 3 is not UTF-8: convert the file, or use data.tokenizer=bytes");
  }
}

TEST_CASE("Tokenizers that cannot be had are refused in one line") {
  const auto refused = [](const std::string& name) {
    return message_of<UserError>([&] { make_tokenizer(name); });
  };
  CHECK(refused("bpe") ==
        "data.tokenizer=bpe is unknown: it takes bytes, gpt2:FOLDER, tiktoken:FILE or "
        "sentencepiece:FILE");
  CHECK(refused("bytes:x") == "data.tokenizer=bytes:x: bytes takes no path");
  CHECK(refused("gpt2") == "data.tokenizer=gpt2: give its path: gpt2:FOLDER");
  CHECK(refused("tiktoken:") == "data.tokenizer=tiktoken:: give its path: tiktoken:FILE");
  const TokenTree tree;
  CHECK(refused("gpt2:" + tree.path()) == tree.path() + ": it has neither vocab.json nor encoder.json");
  tree.write("vocab.json", R"({"a": 0, "b": 1})");
  CHECK(refused("gpt2:" + tree.path()) == tree.path() + ": it has neither merges.txt nor vocab.bpe");
  tree.write("merges.txt", "#version: 0.2\na b\n");
  CHECK(refused("gpt2:" + tree.path()) == tree.file("vocab.json") + ": it has no token for the byte 0");
  tree.write("vocab.json", R"({"a": 0, "b": 0})");
  CHECK(refused("gpt2:" + tree.path()) == tree.file("vocab.json") + ": 'b' has the id 0 of another token");
  tree.write("vocab.json", R"({"a": [1]})");
  CHECK(refused("gpt2:" + tree.path()) == tree.file("vocab.json") + " is not an object of whole numbers");
  tree.write("vocab.json", R"({"a": -1})");
  CHECK(refused("gpt2:" + tree.path()) == tree.file("vocab.json") + " is not an object of whole numbers");
  const std::vector<std::byte> vocabulary = read_file(kFolder + "/vocab.json");
  tree.write("vocab.json", {reinterpret_cast<const char*>(vocabulary.data()), vocabulary.size()});
  tree.write("merges.txt", "#version: 0.2\nt h\n\nq\n");
  CHECK(refused("gpt2:" + tree.path()) == tree.file("merges.txt") + ":4: 'q' is not two tokens of " +
                                              tree.file("vocab.json") + " that make a third");
  tree.write("x.tiktoken", "IQ== 0\nIg= 1\n");
  CHECK(refused("tiktoken:" + tree.file("x.tiktoken")) ==
        tree.file("x.tiktoken") + ":2: 'Ig= 1' is not base64 and a rank of a file of this size");
  tree.write("x.tiktoken", "IQ== 9000000\n");
  CHECK(refused("tiktoken:" + tree.file("x.tiktoken")) ==
        tree.file("x.tiktoken") + ":1: 'IQ== 9000000' is not base64 and a rank of a file of this size");
  tree.write("x.tiktoken", "IQ== 0\nIg== 0\n");
  CHECK(refused("tiktoken:" + tree.file("x.tiktoken")) ==
        tree.file("x.tiktoken") + ":2: the rank 0 comes twice");
  tree.write("x.tiktoken", "IQ== 0\nIQ== 1\n");
  CHECK(refused("tiktoken:" + tree.file("x.tiktoken")) ==
        tree.file("x.tiktoken") + ": the token of rank 1 comes twice");
  tree.write("x.tiktoken", "IQ== 0\n");
  CHECK(refused("tiktoken:" + tree.file("x.tiktoken")) ==
        tree.file("x.tiktoken") + ": it has no token for the byte 0");
  CHECK(refused("tiktoken:" + tree.file("none")) ==
        "cannot read " + tree.file("none") + ": No such file or directory");
}

}  // namespace
}  // namespace rewire::runtime
