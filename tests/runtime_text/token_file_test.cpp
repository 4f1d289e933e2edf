// Files of tokens: each form, each element type, shards as one stream, and what is refused.
#include <numeric>

#include "ir/error.h"
#include "tests/runtime_text/token_files.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using test::message_of;
using test::tokens_asked;
using test::TokenTree;

std::vector<std::int32_t> all_of(const TokenStream& stream) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(stream.count()));
  stream.read(0, ids);
  return ids;
}

template <class Element>
void check_raw(TokenType type, const std::vector<Element>& elements) {
  const TokenTree tree;
  tree.put("tokens.bin", elements);
  const TokenFile file(tree.file("tokens.bin"), type);
  REQUIRE(file.count() == std::ssize(elements));
  std::vector<std::int32_t> ids(elements.size() - 1);
  file.read(1, ids);
  for (std::size_t i = 0; i < ids.size(); ++i) CHECK(std::cmp_equal(ids[i], elements[i + 1]));
}

TEST_CASE("Raw tokens have the element type that is said") {
  check_raw<std::uint8_t>(TokenType::u8, {7, 0, 255, 128, 1});
  check_raw<std::uint16_t>(TokenType::u16, {7, 0, 65535, 50256, 1});
  check_raw<std::int32_t>(TokenType::i32, {7, 0, 2147483647, 1});
  check_raw<std::uint32_t>(TokenType::u32, {7, 0, 2147483647, 100257});
}

std::string npy(const std::string& descr, const std::string& shape) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(118, ' ');
  header.back() = '\n';
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header;
}

TEST_CASE("Tokens of NumPy have the type of their array") {
  const TokenTree tree;
  tree.put<std::uint16_t>("a.npy", {5, 65535, 3}, npy("<u2", "(3,)"));
  tree.put<std::int64_t>("b.npy", {9, 2147483647}, npy("<i8", "(2,)"));
  tree.put<std::uint32_t>("c.npy", {11, 12, 13, 14}, npy("<u4", "(4,)"));
  const auto source = tree.open("tokens", "", tokens_asked(4), {{"validation_fraction", 0.0}});
  CHECK(all_of(tokens_of(*source)->stream()) ==
        std::vector<std::int32_t>{5, 65535, 3, 9, 2147483647, 11, 12, 13, 14});
  const auto refused = [&](const std::string& descr, const std::string& shape) {
    tree.put<std::uint16_t>("x.npy", {1, 2, 3}, npy(descr, shape));
    return message_of<UserError>([&] { TokenFile(tree.file("x.npy"), TokenType::u8); });
  };
  const std::string x = tree.file("x.npy");
  CHECK(refused("<f4", "(3,)") == x + ": '<f4' [3]: tokens must be integers in one dimension");
  CHECK(refused("<u2", "(3, 1)") == x + ": '<u2' [3, 1]: tokens must be integers in one dimension");
  CHECK(refused("<u2", "(4,)") == x + ": the header says 4 tokens of 2 bytes, but 6 bytes follow it");
  CHECK(refused("<u4", "(1,)") == x + ": the header says 1 tokens of 4 bytes, but 6 bytes follow it");
}

TEST_CASE("Shards are one stream in the order of their names, and a read crosses their ends") {
  const TokenTree tree;
  tree.put_shard("s_000010.bin", {10, 11, 12}, 3);
  tree.put_shard("s_000002.bin", {2, 3, 4, 5}, 4);
  tree.put_shard("s_000001.bin", {1}, 1);
  tree.write(".hidden.bin", "x");
  const auto source = tree.open("tokens", "", tokens_asked(4), {{"validation_fraction", 0.0}});
  const TokenStream& stream = tokens_of(*source)->stream();
  CHECK(all_of(stream) == std::vector<std::int32_t>{1, 2, 3, 4, 5, 10, 11, 12});
  const TokenStream part = stream.part(1, 7).part(2, 5);
  CHECK(all_of(part) == std::vector<std::int32_t>{4, 5, 10});
  for (std::int64_t first = 0; first < 8; ++first) {
    for (std::int64_t last = first; last <= 8; ++last)
      CHECK(all_of(stream.part(first, last)).size() == static_cast<std::size_t>(last - first));
  }
  const auto chosen = tree.open("tokens", "s_00000?.bin", tokens_asked(2), {{"validation_fraction", 0.0}});
  CHECK(all_of(tokens_of(*chosen)->stream()) == std::vector<std::int32_t>{1, 2, 3, 4, 5});
}

TEST_CASE("The validation split is files that say so, files that are given, or the end of the stream") {
  const TokenTree tree;
  std::vector<std::uint16_t> ids(101);
  std::iota(ids.begin(), ids.end(), std::uint16_t{0});
  tree.put("one/train.bin", ids);
  const auto ends = [&](const std::string& path, Split split, const TokenTree::Values& values = {}) {
    const auto source = tree.open("tokens", path, tokens_asked(2, 0, split), values);
    const std::vector<std::int32_t> all = all_of(tokens_of(*source)->stream());
    return std::pair(all.front(), all.back());
  };
  using Ends = std::pair<std::int32_t, std::int32_t>;
  // nanoGPT: data[:int(n * 0.9)] and the rest.
  CHECK(ends("one", Split::train) == Ends{0, 89});
  CHECK(ends("one", Split::test) == Ends{90, 100});
  CHECK(ends("one", Split::test, {{"validation_fraction", 0.5}}) == Ends{50, 100});
  tree.put<std::uint16_t>("one/val.bin", {500, 501, 502, 503});
  CHECK(ends("one", Split::train) == Ends{0, 100});
  CHECK(ends("one", Split::test) == Ends{500, 503});
  CHECK(ends("one/val.bin", Split::train) == Ends{500, 502});
  tree.put<std::uint16_t>("other.bin", {700, 701, 702});
  CHECK(ends("one", Split::train, {{"validation", tree.file("other.bin")}}) == Ends{0, 100});
  CHECK(ends("one", Split::test, {{"validation", tree.file("other.bin")}}) == Ends{700, 702});
  tree.put_shard("two/fineweb_val_000000.bin", {7, 8, 9}, 3);
  tree.put_shard("two/fineweb_train_000001.bin", {1, 2, 3}, 3);
  tree.put_shard("two/fineweb_train_000002.bin", {4, 5, 6}, 3);
  CHECK(ends("two", Split::train) == Ends{1, 6});
  CHECK(ends("two", Split::test) == Ends{7, 9});
  CHECK(ends("two/*", Split::test) == Ends{7, 9});
}

TEST_CASE("Files of tokens that are not whole are refused in one line") {
  const TokenTree tree;
  const std::string file = tree.file("x.bin");
  const auto refused = [&](const TokenTree::Values& values = {}) {
    return message_of<UserError>([&] { tree.open("tokens", "x.bin", tokens_asked(4), values); });
  };
  CHECK(refused() == "cannot read " + file + ": No such file or directory");
  tree.write("x.bin", "");
  CHECK(refused() == file + ": the file is empty");
  tree.write("x.bin", "abc");
  CHECK(refused() ==
        file + ": 3 bytes are not a whole number of uint16 tokens: set data.dtype to the file's type");
  tree.write("x.bin", "abcdef");
  CHECK(refused({{"dtype", std::string("int32")}}) ==
        file + ": 6 bytes are not a whole number of int32 tokens: set data.dtype to the file's type");
  tree.put_shard("x.bin", {1, 2, 3}, 4);
  CHECK(refused() == file +
                         ": the header says 4 tokens, but 6 bytes of uint16 follow it, which are 3: the "
                         "file is truncated or damaged");
  tree.put_shard("x.bin", {1, 2, 3}, 3, 2);
  CHECK(refused() == file + ": version 2 of the token format is not supported, only version 1");
  tree.put_shard("x.bin", {}, 0);
  CHECK(refused() == file + ": it has no tokens");
  tree.put<std::int32_t>("x.bin", {20240520, 1, 3});
  CHECK(refused() == file + ": truncated: its header has 1024 bytes, but the file only 12");
  tree.put<std::uint16_t>("x.bin", {1, 2, 3, 4});
  CHECK(refused({{"validation_fraction", 0.0}}) ==
        file + ": it has 4 tokens, but a window takes 4 and the one after them: lower model.context");
  CHECK(refused({{"validation_fraction", 0.75}}) == file + ": 1 token: a window needs two or more");
  tree.put<std::uint16_t>("x.bin", {1, 2, 3, 4, 5});
  CHECK(refused({{"validation_fraction", 0.0}, {"pack", true}}) ==
        file + ": data.pack needs the ends of documents: set data.separator to the id between them");
  CHECK(message_of<UserError>([&] { tree.open("tokens", "*.npy", tokens_asked(4)); }) ==
        tree.file("*.npy") + ": no file matches this pattern");
  std::filesystem::create_directories(tree.file("empty"));
  CHECK(message_of<UserError>([&] { tree.open("tokens", "empty", tokens_asked(4)); }) ==
        tree.file("empty") + ": the folder has no .bin or .npy file");
  CHECK(message_of<UserError>([&] {
          make_source(ir::Selection{"tokens"}.set("path", file),
                      {Split::train, {{"image", ir::DType::f32, {3, 8, 8}, FieldKind::image}}});
        }) == "the data are tokens, but the network takes no tokens i32[batch,context]");
}

TEST_CASE("An id that the network does not know is an error that names it and its place") {
  const TokenTree tree;
  tree.put<std::uint16_t>("a.bin", {1, 2, 3, 4, 5});
  tree.put<std::uint16_t>("b.bin", {6, 7, 300, 8, 9});
  const auto source = tree.open("tokens", "", tokens_asked(3, 300), {{"validation_fraction", 0.0}});
  Sample sample;
  source->read(0, sample);
  source->read(1, sample);
  CHECK(message_of<DataError>([&] { source->read(2, sample); }) ==
        tree.file("b.bin") +
            ": token 2 is 300, but the ids of the vocabulary are 0 to 299: check data.dtype, or set "
            "model.vocab");
  tree.put<std::int32_t>("c.bin", {6, 7, -2, 8});
  const TokenFile negative(tree.file("c.bin"), TokenType::i32);
  std::vector<std::int32_t> ids(4);
  CHECK(message_of<DataError>([&] { negative.read(0, ids); }) ==
        tree.file("c.bin") + ": token 2 is -2: ids begin at 0");
  const TokenFile large(tree.file("c.bin"), TokenType::u32);
  CHECK(message_of<DataError>([&] { large.read(0, ids); }) ==
        tree.file("c.bin") + ": token 2 is 4294967294: ids must be below 2^31: check data.dtype");
}

TEST_CASE("A file of tokens that is cut while it is open is an error") {
  const TokenTree tree;
  tree.put<std::uint16_t>("a.bin", {1, 2, 3, 4, 5});
  const TokenFile file(tree.file("a.bin"), TokenType::u16);
  std::filesystem::resize_file(tree.file("a.bin"), 2);
  std::vector<std::int32_t> ids(4);
  CHECK(message_of<DataError>([&] { file.read(0, ids); }) ==
        tree.file("a.bin") + ": the file has changed since it was opened: run the command again");
}

}  // namespace
}  // namespace rewire::runtime
