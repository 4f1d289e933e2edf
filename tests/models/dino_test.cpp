// The family dino: the public code's names and counts, and one set of weights for images of several sizes.
#include <algorithm>
#include <map>

#include "ir/error.h"
#include "models/model.h"
#include "tests/support/catch.h"

namespace rewire::models {
namespace {

ir::Selection small_dino_model() {
  return {"dino",
          {{"image", std::int64_t{12}},
           {"channels", std::int64_t{2}},
           {"patch", std::int64_t{3}},
           {"dim", std::int64_t{8}},
           {"depth", std::int64_t{1}},
           {"heads", std::int64_t{2}},
           {"hidden_dim", std::int64_t{6}},
           {"bottleneck_dim", std::int64_t{5}},
           {"out_dim", std::int64_t{7}}}};
}

TEST_CASE("Self-distillation's network has the names, shapes and roles of its authors' code") {
  std::map<std::string, ir::Shape> shapes;
  const ir::Module module = build(small_dino_model(), 2);
  for (const ir::Parameter& p : module.parameters) {
    if (p.name.find(".blocks.") == std::string::npos) shapes.emplace(p.name, p.type.shape);
  }
  CHECK(shapes == std::map<std::string, ir::Shape>{{"backbone.cls_token", {1, 1, 8}},
                                                   {"backbone.pos_embed", {1, 17, 8}},
                                                   {"backbone.patch_embed.proj.weight", {8, 2, 3, 3}},
                                                   {"backbone.patch_embed.proj.bias", {8}},
                                                   {"backbone.norm.weight", {8}},
                                                   {"backbone.norm.bias", {8}},
                                                   {"head.mlp.0.weight", {6, 8}},
                                                   {"head.mlp.0.bias", {6}},
                                                   {"head.mlp.2.weight", {6, 6}},
                                                   {"head.mlp.2.bias", {6}},
                                                   {"head.mlp.4.weight", {5, 6}},
                                                   {"head.mlp.4.bias", {5}},
                                                   {"head.last_layer.weight_g", {7, 1}},
                                                   {"head.last_layer.weight_v", {7, 5}}});
  CHECK(module.find_parameter("backbone.blocks.0.attn.qkv.weight") != nullptr);
  CHECK_FALSE(module.find_parameter("head.last_layer.weight_g")->trainable);
  ir::Selection trained = small_dino_model();
  trained.set("norm_last_layer", false);
  CHECK(build(trained, 2).find_parameter("head.last_layer.weight_g")->trainable);
}

TEST_CASE("DINO's small network has as many weights as its authors count") {
  std::int64_t backbone = 0, head = 0;
  for (const ir::Parameter& p : build({"dino_vit_s16"}, 1).parameters)
    (p.name.starts_with("backbone.") ? backbone : head) += p.type.elements();
  CHECK(backbone == 21'665'664);
  CHECK(head == 384 * 2048 + 2048 + 2048 * 2048 + 2048 + 2048 * 256 + 256 + 65536 * 256 + 65536);
}

TEST_CASE("Images of another size are for the same weights, and without a head the features are all") {
  const auto parameters = [](const ir::Module& module) {
    std::map<std::string, ir::Shape> found;
    for (const ir::Parameter& p : module.parameters) found.emplace(p.name, p.type.shape);
    return found;
  };
  ir::Selection other = small_dino_model();
  other.set("position_image", std::int64_t{12});
  other.set("image", std::int64_t{6});
  CHECK(parameters(build(other, 1)) == parameters(build(small_dino_model(), 1)));
  other.set("position_image", std::int64_t{13});
  CHECK_THROWS_WITH(build(other, 1),
                    REWIRE_CATCH_CONTAINS("model.position_image=13 is not a multiple of model.patch=3"));
  ir::Selection bare = small_dino_model();
  bare.set("head", false);
  const ir::Module module = build(bare, 2);
  CHECK(std::ranges::none_of(module.parameters,
                             [](const ir::Parameter& p) { return p.name.starts_with("head."); }));
  CHECK(module.function("forward").results.size() == 1);
  CHECK(module.function("forward").type(module.function("forward").result("features")).shape ==
        ir::Shape{2, 8});
}

}  // namespace
}  // namespace rewire::models
