// The detection transformer: names and counts of its authors' code, joins by scope, frozen parts, refusals.
#include <algorithm>
#include <map>
#include <set>

#include "ir/error.h"
#include "ir/init_text.h"
#include "ir/residual.h"
#include "ir/verify.h"
#include "models/model.h"
#include "tests/support/catch.h"

namespace rewire::models {
namespace {

ir::Selection small_detr(const std::string& backbone) {
  ir::Selection model{"detr"};
  model.set("backbone", backbone).set("image_height", 64).set("image_width", 96);
  model.set("encoder_depth", 2).set("decoder_depth", 3).set("dim", 24).set("heads", 3);
  model.set("queries", 7).set("classes", 5).set("mlp_hidden", 20);
  const std::size_t stages = backbone == "deit_small" ? 1 : 4;
  return model.set("backbone_depths", ir::Doubles(stages, 1));
}

TEST_CASE("DETR with ResNet-50 has the parameters that its authors' code counts") {
  const ir::Module module = build({"detr_resnet50"}, 1);
  std::int64_t trained = 0, frozen = 0, norms = 0;
  for (const ir::Parameter& p : module.parameters) {
    if (!p.is_weight()) continue;
    const bool of_norm = p.role == "norm" && p.name.starts_with("backbone.");
    (p.trainable ? trained : of_norm ? norms : frozen) += p.type.elements();
  }
  CHECK(trained == 41302368);      // printed at the start of its training
  CHECK(frozen == 9408 + 212992);  // conv1 and the convolutions of layer1
  CHECK(norms == 4 * 26560);       // torchvision's resnet50 has 53120 weights and biases of norms
}

TEST_CASE("DETR's logits and boxes are of every decoder layer") {
  for (const char* backbone : {"deit_small", "pvt_small", "resnet50"}) {
    CAPTURE(backbone);
    const ir::Module module = build(small_detr(backbone), 2);
    ir::verify(module);
    const ir::Function& forward = module.function("forward");
    REQUIRE(forward.arguments.size() == 2);
    CHECK(forward.type(forward.argument("image")).shape == ir::Shape{2, 3, 64, 96});
    CHECK(forward.type(forward.argument("image_mask")).shape == ir::Shape{2, 64, 96});
    CHECK(forward.type(forward.result("logits")).shape == ir::Shape{3, 2, 7, 6});
    CHECK(forward.type(forward.result("boxes")).shape == ir::Shape{3, 2, 7, 4});
  }
}

TEST_CASE("DETR's parameters have the names, shapes and initialisation of its authors' code") {
  std::map<std::string, std::string> got;
  for (const ir::Parameter& p : build(small_detr("resnet50"), 1).parameters)
    got[p.name] = ir::to_string(p.type.shape) + " " + ir::to_string(p.init).substr(0, 7);
  const std::map<std::string, std::string> want = {
      {"backbone.0.body.conv1.weight", "[64,3,7,7] normal("},
      {"backbone.0.body.bn1.running_var", "[64] ones"},
      {"backbone.0.body.layer2.0.downsample.0.weight", "[512,256,1,1] normal("},
      {"backbone.0.body.layer2.0.downsample.1.bias", "[512] zeros"},
      {"backbone.0.body.layer4.0.conv2.weight", "[512,512,3,3] normal("},
      {"input_proj.weight", "[24,2048,1,1] uniform"},
      {"input_proj.bias", "[24] uniform"},
      {"query_embed.weight", "[7,24] normal("},
      {"transformer.encoder.layers.1.self_attn.in_proj_weight", "[72,24] xavier_"},
      {"transformer.encoder.layers.1.self_attn.in_proj_bias", "[72] zeros"},
      {"transformer.encoder.layers.1.self_attn.out_proj.weight", "[24,24] xavier_"},
      {"transformer.encoder.layers.1.self_attn.out_proj.bias", "[24] zeros"},
      {"transformer.encoder.layers.1.linear1.weight", "[20,24] xavier_"},
      {"transformer.encoder.layers.1.linear2.bias", "[24] uniform"},
      {"transformer.encoder.layers.1.norm2.weight", "[24] ones"},
      {"transformer.decoder.layers.2.multihead_attn.in_proj_weight", "[72,24] xavier_"},
      {"transformer.decoder.layers.2.norm3.bias", "[24] zeros"},
      {"transformer.decoder.norm.weight", "[24] ones"},
      {"class_embed.weight", "[6,24] uniform"},
      {"bbox_embed.layers.0.weight", "[24,24] uniform"},
      {"bbox_embed.layers.2.weight", "[4,24] uniform"}};
  for (const auto& [name, text] : want) {
    CAPTURE(name);
    REQUIRE(got.contains(name));
    CHECK(got.at(name).substr(0, text.size()) == text);
  }
}

TEST_CASE("DETR's joins have three scopes, and no two of them a name") {
  const std::map<std::string, std::int64_t> of_backbone = {
      {"deit_small", 2}, {"pvt_small", 8}, {"resnet50", 4}};
  for (const auto& [backbone, count] : of_backbone) {
    CAPTURE(backbone);
    const ir::Module module = build(small_detr(backbone), 2);
    const ir::Function& forward = module.function("forward");
    std::map<std::string, std::int64_t> joins;
    std::set<std::string> names;
    for (const std::size_t at : ir::find_joins(forward)) {
      const ir::Join join = ir::read_join(forward.body[at]);
      CAPTURE(join.describe());
      CHECK(join.join_index == joins[join.scope]++);
      CHECK(join.join_count == (join.scope == "backbone" ? count : join.scope == "encoder" ? 4 : 9));
      CHECK(names.insert(join.describe()).second);
      const ir::Parameter* last = module.find_parameter(join.last_weight);
      REQUIRE(last != nullptr);
      CHECK(last->type.shape[0] ==
            forward.type(join.stream).shape[static_cast<std::size_t>(join.channel_axis)]);
      if (join.scope == "decoder") {
        CHECK(join.place == "decoder_blocks." + std::to_string(join.block));
        CHECK((join.site == "attn" || join.block % 2 == 1));
      }
    }
    CHECK(joins == std::map<std::string, std::int64_t>{{"backbone", count}, {"decoder", 9}, {"encoder", 4}});
  }
}

TEST_CASE("A file of a backbone alone is read by the names of DETR") {
  const auto name_here = find_model("detr").family->name_here;
  CHECK(name_here("blocks.3.attn.qkv.weight", {}) == "backbone.0.body.blocks.3.attn.qkv.weight");
  for (const char* own : {"backbone.0.body.conv1.weight", "input_proj.bias", "query_embed.weight",
                          "transformer.decoder.norm.weight", "class_embed.bias", "bbox_embed.layers.0.bias"})
    CHECK(name_here(own, {}) == own);
}

TEST_CASE("DETR refuses sizes that do not go together, with the reason") {
  const auto refuses = [](std::string_view name, const ir::Attribute& value, const std::string& message) {
    CAPTURE(message);
    const ir::Selection model = small_detr("pvt_small").set(name, value);
    CHECK_THROWS_WITH(build(model, 2), REWIRE_CATCH_CONTAINS(message));
    CHECK_THROWS_AS(build(model, 2), UserError);
  };
  refuses("image_height", std::int64_t{80}, "model.image_height=80 is not a multiple of 32, the stride of");
  refuses("image_width", std::int64_t{8}, "model.image_width=8 is not a multiple of 32, the stride of");
  refuses("dim", std::int64_t{20}, "model.dim=20 is not a multiple of model.heads=3");
  refuses("dim", std::int64_t{30}, "model.dim=30 is not a multiple of 4");
  refuses("backbone_depths", ir::Doubles{1, 1},
          "model.backbone_depths has 2 entries; the backbone pvt_small");
  refuses("backbone_heads", ir::Doubles{1, 2, 2.5, 1},
          "model.backbone_heads has 2.5; it takes whole numbers");
  refuses("backbone_dims", ir::Doubles{8, 9, 10, 16},
          "model.backbone_dims has 9, which is not a multiple of");
}

}  // namespace
}  // namespace rewire::models
