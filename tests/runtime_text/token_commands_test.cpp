// What the data commands do with tokens: facts, windows as text, and files of tokens.
#include <algorithm>

#include "ir/error.h"
#include "runtime/data/catalog/data_info.h"
#include "runtime/data/text/token_info.h"
#include "runtime/data/text/token_pack.h"
#include "runtime/data/text/token_preview.h"
#include "runtime/io/sha256.h"
#include "tests/runtime_text/token_files.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using test::message_of;
using test::tokens_asked;
using test::TokenTree;
using Ids = std::vector<std::int32_t>;

const std::string kTinyGpt2 = "gpt2:" + std::string(REWIRE_GOLDENS) + "/tokenizer";

TEST_CASE("The facts of a text are its tokens, documents, bytes and frequent ids") {
  const TokenTree tree;
  tree.write("d/1", "abba");
  tree.write("d/2", "bé");
  tree.write("d/3", "zz");
  const auto open = [&](Split split) {
    return tree.open("text", "d", tokens_asked(1, 0, split, tree.file(".cache")),
                     {{"validation_fraction", 0.2}});
  };
  const auto train = open(Split::train), held = open(Split::test);
  const TokenFacts facts = examine_tokens(*tokens_of(*train));
  CHECK(facts.tokens == 9);
  CHECK(facts.documents == 2);
  CHECK(facts.bytes == 7);
  CHECK(facts.vocabulary == 257);
  CHECK(facts.seen == 5);
  CHECK(facts.least == 97);
  CHECK(facts.greatest == 256);
  CHECK(facts.types.empty());
  CHECK(facts.sha256 == sha256_hex(std::as_bytes(std::span(std::string_view("abbabézz")))));
  CHECK(facts.text_bytes == 9);
  CHECK(facts.text_documents == 3);
  REQUIRE(facts.frequent.size() == 5);
  CHECK(facts.frequent[0].id == 'b');
  CHECK(facts.frequent[0].count == 3);
  CHECK(facts.frequent[0].text == "b");
  CHECK(facts.frequent[1].id == 'a');  // twice, as 256: the lower id first
  CHECK(facts.frequent[2].id == 256);
  CHECK(facts.frequent[2].text.empty());
  CHECK(examine_tokens(*tokens_of(*held)).tokens == 3);
}

TEST_CASE("The facts of token files: their type, their SHA-256, and an id that is none") {
  const TokenTree tree;
  tree.put<std::uint16_t>("train.bin", {5, 6, 6, 50256, 6});
  tree.put<std::uint16_t>("val.bin", {1, 700});
  const DataInfo info = examine_data(ir::Selection{"tokens"}.set("path", tree.path()), {});
  REQUIRE(info.splits[0].tokens);
  const TokenFacts& facts = *info.splits[0].tokens;
  CHECK(facts.tokens == 5);
  CHECK(facts.documents == 0);
  CHECK(facts.bytes == 0);
  CHECK(facts.vocabulary == 0);
  CHECK(facts.greatest == 50256);
  CHECK(facts.types == std::vector<std::string>{"uint16"});
  CHECK(facts.sha256 == sha256_hex(read_file(tree.file("train.bin"))));
  CHECK(info.splits[1].tokens->seen == 2);
  const DataInfo known =
      examine_data(ir::Selection{"tokens"}.set("path", tree.path()).set("tokenizer", kTinyGpt2), {});
  CHECK(known.splits[0].problem == tree.file("train.bin") +
                                       ": token 3 is 50256, but the ids of the vocabulary are 0 to 700: "
                                       "check data.dtype, or set model.vocab");
  CHECK(known.splits[1].tokens->vocabulary == 701);
}

TEST_CASE("The format of tokens and text is found by names") {
  const TokenTree tree;
  tree.put<std::uint16_t>("one/train.bin", {1, 2});
  tree.put<std::uint16_t>("one/val.bin", {1, 2});
  tree.put<std::uint16_t>("two/fineweb_train_000001.bin", {1, 2});
  tree.write("three/a.txt", "x");
  tree.write("three/b.jsonl", "{}");
  tree.write("cifar/train.bin", "x");
  tree.write("cifar/test.bin", "x");
  CHECK(detect_format(tree.file("one")) == "tokens");
  CHECK(detect_format(tree.file("one/val.bin")) == "tokens");
  CHECK(detect_format(tree.file("two")) == "tokens");
  CHECK(detect_format(tree.file("three")) == "text");
  CHECK(detect_format(tree.file("three/a.txt")) == "text");
  CHECK(detect_format(tree.file("cifar")) == "cifar");
}

std::string shown(const Source& source, std::int64_t window) {
  Sample sample;
  source.read(window, sample);
  return window_text(*tokens_of(source), sample);
}

TEST_CASE("A window is shown as text, with the ends of documents and its padding") {
  const TokenTree tree;
  tree.write("d/1", "ab\ncd");
  tree.write("d/2", "e\x1b\xc3\xa9");
  tree.write("d/3", "f");
  const auto open = [&](std::int64_t context, bool pack) {
    return tree.open("text", "d", tokens_asked(context, 0, Split::train, tree.file(".cache")),
                     {{"validation_fraction", 0.0}, {"pack", pack}});
  };
  const auto stream = open(7, false);
  CHECK(shown(*stream, 0) == "ab\ncd<|end|>e\n");
  CHECK(shown(*stream, 1) == "\\x1bé<|end|>f\n--- 2 positions of padding ---\n");
  const auto packed = open(12, true);
  REQUIRE(packed->count() == 2);
  CHECK(shown(*packed, 0) ==
        "--- document 0 ---\nab\ncd<|end|>\n--- document 1 ---\ne\\x1bé<|end|>\n--- 1 position of "
        "padding ---\n");
  CHECK(shown(*packed, 1) == "--- document 0 ---\nf<|end|>\n--- 10 positions of padding ---\n");
  tree.put<std::uint16_t>("x.bin", {5, 6, 7, 8, 9});
  const auto ids = tree.open("tokens", "x.bin", tokens_asked(3),
                             {{"validation_fraction", 0.0}, {"separator", std::int64_t{7}}});
  CHECK(shown(*ids, 0) == "5 6<|end|>\n");
}

TEST_CASE("Packed tokens are read back as they were, in both forms") {
  const TokenTree tree;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "stream " + std::to_string(i * i) + (i % 50 == 49 ? "\n\n" : ", ");
  tree.write("x.txt", text);
  const TokenTree::Values values = {{"tokenizer", kTinyGpt2}};
  const auto asked = [&](Split split) { return tokens_asked(4, 0, split, tree.file(".cache")); };
  const auto train = tree.open("text", "x.txt", asked(Split::train), values),
             held = tree.open("text", "x.txt", asked(Split::test), values);
  const auto all = [](const Source& source) {
    Ids ids;
    tokens_of(source)->stream().for_each(
        [&](std::span<const std::int32_t> piece) { ids.insert(ids.end(), piece.begin(), piece.end()); });
    return ids;
  };
  for (const bool shards : {false, true}) {
    CAPTURE(shards);
    TokenPackOptions options;
    options.output = tree.file(shards ? "shards" : "nanogpt");
    options.shards = shards;
    options.shard_tokens = 300;
    const auto files = pack_tokens(*tokens_of(*train), tokens_of(*held), options);
    CHECK(files.size() == (shards ? (all(*train).size() + 299) / 300 + (all(*held).size() + 299) / 300 : 2));
    for (const PackedTokens& file : files) {
      CHECK(std::filesystem::file_size(file.path) == static_cast<std::uintmax_t>(file.bytes));
      CHECK(file.bytes == file.tokens * 2 + (shards ? 1024 : 0));
    }
    const std::string folder = shards ? "shards" : "nanogpt";
    CHECK(detect_format(tree.file(folder)) == "tokens");
    CHECK(all(*tree.open("tokens", folder, asked(Split::train))) == all(*train));
    CHECK(all(*tree.open("tokens", folder, asked(Split::test))) == all(*held));
    CHECK(message_of<UserError>([&] { pack_tokens(*tokens_of(*train), nullptr, options); }) ==
          options.output + ": it exists and is not an empty folder: choose another --output");
  }
}

}  // namespace
}  // namespace rewire::runtime
