// Text as documents: files, lines of .jsonl, the split, the tokens' cache, and the default text.
#include <algorithm>
#include <numeric>

#include "ir/error.h"
#include "runtime/data/text/documents.h"
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

std::string sha_of(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text)));
}

/// The tokens as text, with '|' where a document ends.
std::string text_in(const Source& source) {
  const TokenSource& tokens = *tokens_of(source);
  std::string text;
  tokens.stream().for_each([&](std::span<const std::int32_t> ids) {
    for (const std::int32_t id : ids) {
      text += id == tokens.options().tokenizer->end() ? "|" : tokens.options().tokenizer->text_of(id);
    }
  });
  return text;
}

struct TextTree : TokenTree {
  std::string train(const std::string& path, const Values& values = {}) const {
    return text_in(*open("text", path, asked(Split::train), values));
  }
  std::string test(const std::string& path, const Values& values = {}) const {
    return text_in(*open("text", path, asked(Split::test), values));
  }
  SourceContext asked(Split split, std::int64_t context = 1) const {
    return tokens_asked(context, 0, split, file(".cache"));
  }
  std::string refused(const std::string& path, const Values& values = {}, Split split = Split::train) const {
    return message_of<UserError>([&] { open("text", path, asked(split), values); });
  }
};

TEST_CASE("The last part of one document is the validation split, cut between characters") {
  const TextTree tree;
  tree.write("x.txt", "0123456789abcdefghij");
  CHECK(tree.train("x.txt") == "0123456789abcdefgh");
  CHECK(tree.test("x.txt") == "ij|");
  CHECK(tree.train("x.txt", {{"validation_fraction", 0.25}}) == "0123456789abcde");
  CHECK(tree.train("x.txt", {{"validation_fraction", 0.0}}) == "0123456789abcdefghij|");
  tree.write("y.txt", "ééééé");  // 10 bytes; 9 is inside a character
  CHECK(tree.train("y.txt") == "éééé");
  CHECK(tree.test("y.txt") == "é|");
}

TEST_CASE("Files are documents in the order of their paths, and the last ones are the validation split") {
  const TextTree tree;
  tree.write("data/b.txt", "second");
  tree.write("data/a/z.txt", "first");
  tree.write("data/c.jsonl", "{\"text\": \"third é\", \"id\": 3}\n\n{\"text\": \"fourth\"}\n");
  tree.write("data/.hidden", "no");
  tree.write("data/.git/x.txt", "no");
  CHECK(tree.train("data", {{"validation_fraction", 0.0}}) == "first|second|third é|fourth|");
  CHECK(tree.train("data", {{"validation_fraction", 0.4}}) == "first|second|third é|");
  CHECK(tree.test("data", {{"validation_fraction", 0.4}}) == "fourth|");
  CHECK(tree.train("data/*.txt", {{"validation_fraction", 0.0}}) == "second|");
  CHECK(tree.train("data", {{"validation", tree.file("data/b.txt")}}) == "first|second|third é|fourth|");
  CHECK(tree.test("data", {{"validation", tree.file("data/b.txt")}}) == "second|");
  const Documents documents(tree.file("data"));
  CHECK(documents.count() == 4);
  CHECK(documents.sizes() == std::vector<std::int64_t>{5, 6, 8, 6});
  CHECK(documents.bytes() == 25);
  CHECK(documents.sha256() == sha_of("firstsecondthird éfourth"));
}

TEST_CASE("A document without text is left out") {
  const TextTree tree;
  tree.write("data/a.txt", "first");
  tree.write("data/b.txt", "");
  tree.write("data/c.jsonl", "{\"text\": \"\"}\n{\"text\": \"last\"}\n");
  CHECK(tree.train("data", {{"validation_fraction", 0.0}}) == "first|last|");
  CHECK(Documents(tree.file("data")).count() == 2);
}

TEST_CASE("However documents are split, each is in one part, and neither part is empty") {
  const TextTree tree;
  for (int i = 0; i < 5; ++i)
    tree.write("d/" + std::to_string(i), std::string(i == 2 ? 100 : 3, char('a' + i)));
  for (const double fraction : {0.001, 0.02, 0.1, 0.5, 0.9, 0.999}) {
    CAPTURE(fraction);
    const std::string train = tree.train("d", {{"validation_fraction", fraction}}),
                      test = tree.test("d", {{"validation_fraction", fraction}});
    CHECK(train + test == tree.train("d", {{"validation_fraction", 0.0}}));
    CHECK(std::min(train.size(), test.size()) >= 4);
  }
}

TEST_CASE("Text that cannot be read is refused in one line") {
  const TextTree tree;
  CHECK(tree.refused("none.txt") == "cannot read " + tree.file("none.txt") + ": No such file or directory");
  tree.write("empty.txt", "");
  CHECK(tree.refused("empty.txt") == tree.file("empty.txt") + ": there is no text in it");
  tree.write("a.jsonl", "{\"text\": \"x\"}\n{\"txt\": \"y\"}\n");
  CHECK(tree.refused("a.jsonl") == tree.file("a.jsonl") + ":2 has no \"text\"");
  tree.write("a.jsonl", "{\"text\": \"x\"}\n{\"text\": 3}\n");
  CHECK(tree.refused("a.jsonl") == tree.file("a.jsonl") + ":2: text is a number, not text");
  tree.write("a.txt", "abc\xff");
  const std::string gpt2 = "gpt2:" + std::string(REWIRE_GOLDENS) + "/tokenizer";
  CHECK(tree.refused("a.txt", {{"tokenizer", gpt2}, {"validation_fraction", 0.0}}) ==
        tree.file("a.txt") + ": byte 3 is not UTF-8: convert the file, or use data.tokenizer=bytes");
  tree.write("a.txt", "a longer text");
  CHECK(tree.refused("a.txt", {{"validation_fraction", 0.0}}, Split::test) ==
        tree.file("a.txt") + ": data.validation_fraction is 0: set data.validation to the validation text");
  CHECK(message_of<UserError>([&] { tree.open("text", "a.txt", tokens_asked(50)); }) ==
        tree.file("a.txt") +
            ": it has 11 tokens, but a window takes 50 and the one after them: lower model.context");
  CHECK(message_of<UserError>([&] { tree.open("text", "a.txt", tokens_asked(2, 256)); }) ==
        tree.file("a.txt") +
            ": its tokenizer has the ids 0 to 256, but the network knows 256: set model.vocab=257");
}

std::vector<std::string> cached_files(const TextTree& tree) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(tree.file(".cache")))
    files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

TEST_CASE("Tokens are kept in a file of their text and tokenizer, and a damaged one is written again") {
  const TextTree tree;
  tree.write("x.txt", "some text");
  const std::string text = tree.train("x.txt");
  REQUIRE(cached_files(tree).size() == 1);
  const std::string file = cached_files(tree).front();
  const std::vector<std::byte> whole = read_file(file);
  CHECK(tree.train("x.txt") == text);
  CHECK(cached_files(tree).size() == 1);
  // A copy of the text at another path has equal tokens.
  tree.write("y.txt", "some text");
  CHECK(tree.train("y.txt") == text);
  CHECK(cached_files(tree).size() == 1);
  for (const std::size_t damaged : {std::size_t{0}, whole.size() - 60, whole.size() - 1}) {
    std::vector<std::byte> bytes = whole;
    bytes[damaged] ^= std::byte{1};
    write_file_atomically(file, bytes);
    CHECK(tree.train("x.txt") == text);
    CHECK(read_file(file) == whole);
  }
  write_file_atomically(file, std::span(whole).first(10));
  CHECK(tree.train("x.txt") == text);
  CHECK(read_file(file) == whole);
  tree.write("x.txt", "some other text");
  CHECK(tree.train("x.txt") == "some other te");
  CHECK(cached_files(tree).size() == 2);
  // Documents of the same bytes with other boundaries are another text.
  tree.write("d/1", "some tex");
  tree.write("d/2", "t");
  CHECK(tree.train("d") == "some tex|");
  CHECK(cached_files(tree).size() == 3);
}

TEST_CASE("Windows of text carry the bytes of their targets, and packed ones their documents") {
  const TextTree tree;
  tree.write("d/1", "abc");
  tree.write("d/2", "é");
  tree.write("d/3", "xyz");
  const auto source =
      tree.open("text", "d", tree.asked(Split::train, 8), {{"validation_fraction", 0.3}, {"pack", true}});
  REQUIRE(source->count() == 1);
  Sample sample;
  source->read(0, sample);
  CHECK(test::ids_of(sample, "tokens") == Ids{'a', 'b', 'c', 256, 0xc3, 0xa9, 256, 0});
  CHECK(test::ids_of(sample, "targets") == Ids{'b', 'c', 256, -1, 0xa9, 256, -1, -1});
  CHECK(test::ids_of(sample, "documents") == Ids{0, 0, 0, 0, 1, 1, 1, 2});
  CHECK(sample.at("bytes").as<const float>()[0] == 3);
}

TEST_CASE("Without a path, the text is Perl's manual, where it is installed") {
  std::string folder;
  try {
    folder = default_text();
  } catch (const UserError& error) {
    CHECK(std::string(error.what())
              .ends_with("run scripts/setup.sh or `apt install perl-doc`, or set data.path to a text"));
    return;
  }
  const Documents documents("");
  CHECK(documents.name() == folder);
  CHECK(documents.count() > 150);
  CHECK(documents.bytes() > 8'000'000);
}

}  // namespace
}  // namespace rewire::runtime
