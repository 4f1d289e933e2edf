// What a recipe says of its data beside the source: views, parts of the training set, repeats, a cache.
#include <algorithm>
#include <map>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/verify.h"
#include "runtime/data/vision/presets.h"
#include "runtime/device/process.h"
#include "runtime/exec/make_engine.h"
#include "runtime/io/files.h"
#include "runtime/network/data_feed.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using test::message_of;

Recipe synthetic_recipe(const std::string& more = "", const std::vector<std::string>& settings = {}) {
  return parse_recipe(R"(
seed = 3
[data]
format = "synthetic"
count = 40
[train]
batch = 8
[eval]
batch = 16
)" + more,
                      "test.toml", settings);
}

/// Two classes, images of 1 x 1 x 9.
NetworkFace linear_face(const Recipe& recipe) {
  return network_face(linear_model(1, 9, 2), recipe.objective);
}

/// What the first training batches hold, by the name of a tensor.
std::vector<TensorMap> batches(const Recipe& recipe, const NetworkFace& face, int count) {
  const DataFeed feed(recipe, Split::train, face);
  const auto loader = feed.load();
  std::vector<TensorMap> all;
  for (int i = 0; i < count; ++i) {
    Batch batch;
    loader->next(batch);
    all.push_back(std::move(batch.tensors));
  }
  return all;
}

constexpr const char* kViews = R"(
[[view]]
name = "flipped"
count = 2
horizontal_flip = true
[[view]]
name = "square"
size = 5
resize = "bilinear"
)";

TEST_CASE("The views that the network takes are in each training batch, the others are not made") {
  const Recipe recipe = synthetic_recipe(kViews);
  const NetworkFace face = linear_face(recipe);
  CHECK_FALSE(batches(recipe, face, 1)[0].contains("flipped"));
  const NetworkFace all = with_views(face, recipe);
  const TensorMap batch = std::move(batches(recipe, all, 1)[0]);
  CHECK(batch.at("flipped").type() == ir::TensorType{ir::DType::f32, {2, 8, 1, 1, 9}});
  CHECK(batch.at("square").type() == ir::TensorType{ir::DType::f32, {1, 8, 1, 5, 5}});
  // Each is the image or its mirror image, and not all are the same.
  const auto image = batch.at("image").as<float>(), flipped = batch.at("flipped").as<float>();
  std::map<bool, int> counts;
  for (std::size_t i = 0; i < 16; ++i) {
    const auto own = image.subspan(i % 8 * 9, 9), view = flipped.subspan(i * 9, 9);
    const bool is_same = std::equal(own.begin(), own.end(), view.begin());
    CHECK((is_same || std::equal(own.rbegin(), own.rend(), view.begin())));
    ++counts[is_same];
  }
  CHECK(counts[true] > 2);
  CHECK(counts[false] > 2);
  // Evaluation has no views.
  Batch evaluated;
  DataFeed(recipe, Split::test, all).load()->next(evaluated);
  CHECK_FALSE(evaluated.tensors.contains("flipped"));
}

/// f(NAME) returns its argument.
ir::Module passing_on(const std::string& name, const ir::TensorType& type) {
  ir::Module module;
  module.name = "passing_on";
  ir::Function& function = module.functions.emplace_back();
  function.name = "f";
  ir::Builder b(module, function);
  b.result("same", b.argument(name, type));
  return module;
}

TEST_CASE("For a device, images and views are bytes, of which a program makes the floats of the host") {
  const Recipe recipe = synthetic_recipe(kViews, {"transforms.mean=[0.3]", "transforms.std=[0.7]"});
  const NetworkFace face = with_views(linear_face(recipe), recipe);
  for (const Split split : {Split::train, Split::test}) {
    const bool trains = split == Split::train;
    const DataFeed host(recipe, split, face, trains), device(recipe, split, face, trains, {}, Target::device);
    Batch floats, bytes;
    host.load()->next(floats);
    device.load()->next(bytes);
    REQUIRE(floats.tensors.size() == bytes.tensors.size());
    for (const auto& [name, tensor] : floats.tensors) {
      CAPTURE(name);
      ir::Module module = passing_on(name, tensor.type());
      device.take_bytes(module, "f");
      device.take_bytes(module, "no such function");
      ir::verify(module);
      const HostTensor& given = bytes.tensors.at(name);
      const bool is_image = name != "label" && name != "weight";
      CHECK(given.type().dtype == (is_image ? ir::DType::u8 : tensor.type().dtype));
      CHECK(given.type().shape == tensor.type().shape);
      for (const std::string& engine : engine_names()) {
        TensorMap inputs;
        inputs.emplace(name, given.clone());
        const TensorMap results = make_engine(engine, module)->run("f", inputs);
        CHECK(std::ranges::equal(results.at("same").bytes(), tensor.bytes()));
      }
    }
  }
}

TEST_CASE("Threads of a feed are the recipe's, or as its target asks") {
  const auto threads = [](const Recipe& recipe, Target target) {
    return DataFeed(recipe, Split::train, linear_face(recipe), true, {}, target).threads();
  };
  const Recipe open = synthetic_recipe(), set = synthetic_recipe("", {"data.threads=3"});
  CHECK(threads(open, Target::host) == 1);
  CHECK(threads(open, Target::device) == usable_cores());
  CHECK(DataFeed(open, Split::train, linear_face(open), true, {}, Target::device, 5).threads() == 5);
  CHECK(DataFeed(open, Split::train, linear_face(open), true, {}, Target::host, 5).threads() == 1);
  CHECK(DataFeed(set, Split::train, linear_face(set), true, {}, Target::device, 5).threads() == 3);
  CHECK(threads(set, Target::host) == 3);
  CHECK(threads(set, Target::device) == 3);
}

TEST_CASE("A network that takes other views than the recipe has is refused by name") {
  const Recipe recipe = synthetic_recipe(kViews);
  const auto message = [&](const std::string& name, const ir::Shape& shape) {
    NetworkFace face = linear_face(recipe);
    face.inputs.push_back({.name = name, .type = {ir::DType::f32, shape}, .batch_axis = 1});
    return message_of<UserError>([&] { DataFeed(recipe, Split::train, face); });
  };
  CHECK(message("turned", {2, 1, 1, 1, 9}) ==
        "the objective takes views 'turned': give the recipe a [[view]] of that name, or transforms.preset");
  CHECK(
      message("flipped", {3, 1, 1, 1, 9}) ==
      "the view 'flipped' is f32[2,1,1,1,9], but the objective takes f32[3,1,1,1,9]: set its count and size");
  const Recipe unsized_view = synthetic_recipe("[[view]]\nname = \"v\"\nsize = 4\n");
  CHECK(message_of<UserError>([&] {
          DataFeed(unsized_view, Split::train, with_views(linear_face(unsized_view), unsized_view));
        }) ==
        "the view 'v': its images are [1,1,9] (channels, height, width), but [1,4,4] is required: set its "
        "resize");
}

TEST_CASE("train_fraction and train_list take from the training images alone") {
  const test::TemporaryFolder folder;
  const Recipe tenth = synthetic_recipe("", {"data.train_fraction=0.3"});
  CHECK(DataFeed(tenth, Split::train, linear_face(tenth)).count() == 12);
  CHECK(DataFeed(tenth, Split::test, linear_face(tenth)).count() == 40);
  write_file_atomically(folder.file("list"), std::string_view("1\n3\n5\n7\n9\n11\n13\n15\n17\n19\n"));
  const Recipe odd = synthetic_recipe("", {"data.train_list=" + folder.file("list")});
  const DataFeed feed(odd, Split::train, linear_face(odd));
  REQUIRE(feed.count() == 10);
  for (std::int64_t i = 0; i < 10; ++i) CHECK(feed.images("a test").label(i) == 1);
  const Recipe few = synthetic_recipe("", {"data.train_fraction=0.1"});
  CHECK(message_of<UserError>([&] { DataFeed(few, Split::train, linear_face(few)); }) ==
        "train.batch is 8, but synthetic data has only 4 training samples");
}

TEST_CASE("aug_repeats shows each image several times in a row, in training alone") {
  const Recipe recipe = synthetic_recipe("", {"data.aug_repeats=2"});
  const NetworkFace face = linear_face(recipe);
  const std::vector<std::uint32_t> order = epoch_order(40, 3, 0);
  const std::vector<TensorMap> made = batches(recipe, face, 2);
  for (std::size_t i = 0; i < 16; ++i)
    CHECK(made[i / 8].at("label").as<std::int64_t>()[i % 8] == order[i / 2] % 2);
  Batch evaluated;
  DataFeed(recipe, Split::test, face).load()->next(evaluated);
  for (std::size_t i = 0; i < 16; ++i)
    CHECK(evaluated.tensors.at("label").as<std::int64_t>()[i] == static_cast<std::int64_t>(i % 2));
}

TEST_CASE("A cache is refused where images are in memory already") {
  const Recipe recipe = synthetic_recipe("", {"data.cache=somewhere"});
  CHECK(message_of<UserError>([&] { DataFeed(recipe, Split::train, linear_face(recipe)); }) ==
        "synthetic data: its pixels are already in memory: remove data.cache");
}

}  // namespace
}  // namespace rewire::runtime
