// A family of models that is no resident: two stages of feature maps, built with the layers alone.
#include <algorithm>

#include "ir/error.h"
#include "ir/residual.h"
#include "ir/verify.h"
#include "models/model.h"
#include "tests/support/catch.h"

namespace rewire::models {
namespace {

using ir::Value;

/// Tokens of `patch` pixels; then `stages` stages of blocks of one join each, a projection between them.
void build_stages(Layers& net, const ir::Attributes& options, std::int64_t batch) {
  ir::Builder& b = net.builder();
  Value x = net.patch_embed("stem", b.argument("image", {ir::DType::f32, {batch, 1, 6, 8}}),
                            options.get_int("width"), 2);
  for (std::int64_t stage = 0; stage < options.get_int("stages"); ++stage) {
    const ir::Builder::Scope scope(b, fmt::format("stages.{}", stage));
    if (stage > 0) x = net.linear("downsample", x, 2 * b.shape(x).back());
    for (std::int64_t i = 0; i < 2; ++i) {
      const Layers::Block block(net, fmt::format("blocks.{}", i));
      x = net.join(
          "conv", x, [&](Value z) { return net.layer_norm("norm", z); },
          [&](Value z) { return net.linear("conv1", z, b.shape(z).back()); }, {.last = "conv1"});
    }
  }
  const Value pooled = b.reshape(b.mean(x, {1}), {batch, b.shape(x).back()});
  b.result("logits", net.linear("head", pooled, 3));
}

const Family kStages{.name = "stages",
                     .doc = "stages of joins",
                     .schema = {ir::int_parameter("stages", 1, "how many").at_least(1).at_most(4),
                                ir::int_parameter("width", 4, "of the first").at_least(1)},
                     .build = build_stages,
                     .variants = {{"stages_two", {{"stages", 2}}}}};

/// In the list once, whichever test asks first.
const Model& stages_two() {
  const bool listed =
      std::ranges::any_of(models(), [](const Model* model) { return model->name == "stages"; });
  if (!listed) add_family(kStages);
  return find_model("stages_two");
}

TEST_CASE(
    "A backbone takes an image and gives features, and all it has is the whole network's by name and shape") {
  std::size_t with = 0;
  for (const Model* model : models()) {
    if (!model->values.empty() || model->family->backbone.empty()) continue;
    CAPTURE(model->name);
    ++with;
    const ir::Module whole = build({model->name}, 2), backbone = build(backbone_of({model->name}), 2);
    const ir::Function& forward = backbone.function("forward");
    REQUIRE(forward.arguments.size() == 1);
    CHECK(forward.arguments[0].name == "image");
    REQUIRE(forward.result("features"));
    CHECK(forward.type(forward.result("features")).rank() == 2);
    CHECK_FALSE(forward.result("logits"));
    CHECK(backbone.parameters.size() < whole.parameters.size());
    for (const ir::Parameter& parameter : backbone.parameters) {
      const ir::Parameter* same = whole.find_parameter(parameter.name);
      REQUIRE(same != nullptr);
      CHECK(same->type == parameter.type);
      CHECK(same->layer == parameter.layer);
    }
  }
  CHECK(with >= 7);
  stages_two();
  CHECK_THROWS_WITH(
      backbone_of({"stages_two"}),
      REWIRE_CATCH_CONTAINS(
          "the model stages_two has no form without a head: the family stages does not define one"));
}

TEST_CASE("A family that is added can be named, set and refused as those that are built in") {
  const Model& model = stages_two();
  CHECK(model.schema.at(0).default_text == "2");
  CHECK(model.schema.at(1).default_text == "4");
  CHECK(options_of({"stages_two"}).get_int("stages") == 2);
  CHECK(options_of({"stages"}).get_int("stages") == 1);
  CHECK_THROWS_WITH(build({"stages_two", {{"stages", 5}}}, 1),
                    REWIRE_CATCH_CONTAINS("model.stages=5 is out of range: it takes an int 1 to 4"));
  CHECK_THROWS_WITH(build({"stages_too"}, 1), REWIRE_CATCH_CONTAINS("did you mean 'stages_two'?"));
  const ir::Module module = build({"stages_two", {{"width", 5}}}, 3);
  CHECK(module.name == "stages_two");
  CHECK(module.attributes.get_int("batch") == 3);
  CHECK(module.attributes.get_int("width") == 5);
  CHECK_NOTHROW(ir::verify(module));
}

TEST_CASE("Joins and parameters are named after where they stand, and counted over the stages") {
  stages_two();
  const ir::Module module = build({"stages_two"}, 2);
  const ir::Function& forward = module.function("forward");
  const std::vector<std::string> want = {"stages.0.blocks.0", "stages.0.blocks.1", "stages.1.blocks.0",
                                         "stages.1.blocks.1"};
  std::vector<std::string> places;
  for (const std::size_t at : ir::find_joins(forward)) {
    const ir::Join join = ir::read_join(forward.body[at]);
    CHECK(join.block == static_cast<std::int64_t>(places.size()));
    CHECK(join.join_index == join.block);
    CHECK(join.join_count == 4);
    CHECK(join.describe() == join.place + ".conv");
    CHECK(join.last_weight == join.place + ".conv.conv1.weight");
    places.push_back(join.place);
    const ir::Parameter* norm = module.find_parameter(join.place + ".norm.weight");
    REQUIRE(norm != nullptr);
    CHECK(norm->block == join.block);
    CHECK(norm->site == "conv");
  }
  CHECK(places == want);
  const ir::Parameter* between = module.find_parameter("stages.1.downsample.weight");
  REQUIRE(between != nullptr);
  CHECK(between->block == -1);
  CHECK(between->type.shape == ir::Shape{8, 4});
}

TEST_CASE("Patches of images that are not square stand row by row") {
  stages_two();
  const ir::Module module = build({"stages"}, 2);
  const ir::Function& forward = module.function("forward");
  const ir::Join first = ir::read_join(forward.body[ir::find_joins(forward).front()]);
  CHECK(forward.type(first.stream).shape == ir::Shape{2, 12, 4});
}

}  // namespace
}  // namespace rewire::models
