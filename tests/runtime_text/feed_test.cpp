// Text reaches a step as a recipe's data: batches of the fields that a network takes.
#include <utility>

#include "ir/error.h"
#include "runtime/network/data_feed.h"
#include "tests/runtime_text/token_files.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using test::ids_of;
using test::message_of;
using test::TokenTree;

NetworkFace face_of(std::int64_t context, bool documents = false) {
  NetworkFace face;
  const ir::TensorType window{ir::DType::i32, {1, context}};
  face.inputs = {{.name = "tokens", .type = window, .categories = 257, .kind = FieldKind::tokens},
                 {.name = "targets", .type = window, .categories = 257},
                 {.name = "bytes", .type = {ir::DType::f32, {1, 1}}}};
  if (documents) face.inputs.push_back({.name = "documents", .type = window});
  return face;
}

Recipe recipe_of(const TokenTree& tree, const TokenTree::Values& values = {}) {
  Recipe recipe;
  recipe.source = ir::Selection{"text"}.set("path", tree.file("x.txt"));
  for (const auto& [key, value] : values) recipe.source.set(key, value);
  recipe.data.cache = tree.file("cache");
  recipe.train.batch = 4;
  recipe.eval.batch = 3;
  return recipe;
}

TEST_CASE("A feed of text gives batches of tokens, targets and bytes") {
  const TokenTree tree;
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>('a' + i % 26);
  tree.write("x.txt", text);
  const DataFeed train(recipe_of(tree), Split::train, face_of(8));
  CHECK(std::filesystem::exists(tree.file("cache")));
  CHECK(train.count() == 23);  // 180 tokens: 179 positions
  CHECK(train.batches() == 5);
  Batch batch;
  train.load()->next(batch);
  CHECK(batch.tensors.at("tokens").type() == ir::TensorType{ir::DType::i32, {4, 8}});
  CHECK(batch.tensors.at("bytes").type() == ir::TensorType{ir::DType::f32, {4, 1}});
  const auto tokens = ids_of(batch.tensors, "tokens"), targets = ids_of(batch.tensors, "targets");
  for (std::size_t i = 0; i < 32; ++i) {
    CHECK(targets[i] == (tokens[i] == 'z' ? 'a' : tokens[i] + 1));
    if (i % 8 != 0) CHECK(tokens[i] == targets[i - 1]);
  }
  for (const float bytes : std::as_const(batch.tensors.at("bytes")).as<const float>()) CHECK(bytes == 8);

  const DataFeed held(recipe_of(tree), Split::test, face_of(8));
  CHECK(held.count() == 3);  // 20 bytes and the end of the document: 20 positions
  float bytes = 0;
  held.load()->next(batch);
  for (const float of_window : std::as_const(batch.tensors.at("bytes")).as<const float>()) bytes += of_window;
  CHECK(bytes == 19);
}

TEST_CASE("What text does not have is refused when the feed is made") {
  const TokenTree tree;
  tree.write("x.txt", "a text of some length, with more than one window in it");
  const auto refused = [&](const Recipe& recipe, const NetworkFace& face) {
    return message_of<UserError>([&] { DataFeed(recipe, Split::train, face); });
  };
  const std::string name = tree.file("x.txt");
  CHECK(refused(recipe_of(tree), face_of(8, true)) ==
        name +
            ": a sample has 'tokens' i32[8], 'targets' i32[8], 'bytes' f32[1]; the network takes 'documents' "
            "i32[8]");
  CHECK(DataFeed(recipe_of(tree, {{"pack", true}}), Split::test, face_of(8, true)).count() == 1);
  Recipe recipe = recipe_of(tree);
  recipe.data.train_fraction = 0.5;
  CHECK(refused(recipe, face_of(8)) ==
        "data.train_fraction needs labelled images, but " + name + " has none: remove it");
  recipe = recipe_of(tree);
  recipe.source = ir::Selection{"tokens"}.set("path", tree.file("x.bin"));
  tree.put<std::uint16_t>("x.bin", std::vector<std::uint16_t>(60, 7));
  CHECK(refused(recipe, face_of(8)) ==
        "data.cache needs labelled images, but " + tree.file("x.bin") + " has none: remove it");
  recipe.data.cache.clear();
  CHECK(DataFeed(recipe, Split::train, face_of(8)).count() == 7);
}

}  // namespace
}  // namespace rewire::runtime
