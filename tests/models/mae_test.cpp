// The masked autoencoder: names and shapes of its authors' code, its joins, what its mask hides, refusals.
#include <algorithm>
#include <numeric>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/ops/work.h"
#include "ir/residual.h"
#include "ir/verify.h"
#include "models/model.h"
#include "tests/support/catch.h"

namespace rewire {
namespace {

ir::Selection small_mae(const std::string& skips = "none") {
  return {"mae",
          {{"image", std::int64_t{8}},
           {"patch", std::int64_t{2}},
           {"channels", std::int64_t{3}},
           {"dim", std::int64_t{8}},
           {"depth", std::int64_t{4}},
           {"heads", std::int64_t{2}},
           {"mask_ratio", 0.7},
           {"skips", skips},
           {"decoder_dim", std::int64_t{12}},
           {"decoder_depth", std::int64_t{3}},
           {"decoder_heads", std::int64_t{3}}}};
}

std::vector<std::string> shapes_outside_blocks(const ir::Module& module) {
  std::vector<std::string> shapes;
  for (const ir::Parameter& p : module.parameters) {
    if (p.name.starts_with("blocks.") || p.name.starts_with("decoder_blocks.")) continue;
    shapes.push_back(p.name + " " + ir::to_string(p.type.shape) + (p.trainable ? "" : " frozen"));
  }
  return shapes;
}

TEST_CASE("A masked autoencoder's parameters have the names and shapes of its authors' code") {
  CHECK(shapes_outside_blocks(models::build(small_mae(), 2)) ==
        std::vector<std::string>{
            "cls_token [1,1,8]", "pos_embed [1,17,8] frozen", "patch_embed.proj.weight [8,3,2,2]",
            "patch_embed.proj.bias [8]", "norm.weight [8]", "norm.bias [8]", "decoder_embed.weight [12,8]",
            "decoder_embed.bias [12]", "mask_token [1,1,12]", "decoder_pos_embed [1,17,12] frozen",
            "decoder_norm.weight [12]", "decoder_norm.bias [12]", "decoder_pred.weight [12,12]",
            "decoder_pred.bias [12]"});
  const ir::Module module = models::build(small_mae(), 2);
  for (const std::string place : {"blocks.3.", "decoder_blocks.2."}) {
    for (const char* leaf : {"norm1.weight", "attn.qkv.bias", "attn.proj.weight", "norm2.bias",
                             "mlp.fc1.weight", "mlp.fc2.bias"}) {
      CAPTURE(place, leaf);
      CHECK(module.find_parameter(place + leaf) != nullptr);
    }
  }
  // MAE's ViT-B has 111.9 million with the decoder's 26 (its fixed positions among them).
  std::int64_t count = 0;
  for (const ir::Parameter& p : models::build({"mae_vit_b16"}, 1).parameters) count += p.type.elements();
  CHECK(count == 111907840);
}

TEST_CASE("The decoder of unet reads every other block, the last first, and the encoder has no last norm") {
  const ir::Module unet = models::build(small_mae("unet"), 2),
                   paper = models::build(small_mae("unet_paper"), 2);
  for (const ir::Module* module : {&unet, &paper}) {
    CHECK_NOTHROW(ir::verify(*module));
    CHECK(module->find_parameter("decoder_skips.1.mask_token") != nullptr);
    CHECK(module->find_parameter("decoder_skips.2.mask_token") == nullptr);  // half as many as encoder blocks
  }
  CHECK(unet.find_parameter("norm.weight") == nullptr);
  CHECK(unet.find_parameter("mask_token") == nullptr);
  CHECK(unet.find_parameter("decoder_skips.0.fc1.weight")->type.shape == ir::Shape{12, 20});
  CHECK(unet.find_parameter("decoder_skips.0.fc2.weight")->init.kind == ir::InitKind::zeros);
  CHECK(paper.find_parameter("decoder_skips.0.proj.weight")->type.shape == ir::Shape{12, 20});
  CHECK(paper.find_parameter("norm.weight") != nullptr);
}

TEST_CASE("The encoder's joins and the decoder's have scopes of their own") {
  const ir::Module module = models::build(small_mae("unet"), 2);
  const ir::Function& forward = module.function("forward");
  int encoder = 0, decoder = 0;
  for (const std::size_t at : ir::find_joins(forward)) {
    const ir::Join join = ir::read_join(forward.body[at]);
    (join.scope == "encoder" ? encoder : decoder) += 1;
    CHECK(forward.type(join.stream).shape == (join.scope == "encoder"
                                                  ? ir::Shape{2, 5, 8}
                                                  : ir::Shape{2, 17, 12}));  // int(16 (1 - .7)) = 4 are kept
    CHECK(join.join_count == (join.scope == "encoder" ? 8 : 6));
  }
  CHECK(encoder == 8);
  CHECK(decoder == 6);
}

TEST_CASE("What is masked is what the noise puts last, and the prediction does not see its pixels") {
  for (const std::string skips : {"none", "unet", "unet_paper"}) {
    CAPTURE(skips);
    const ir::Module module = models::build(small_mae(skips), 1);
    ir::EvalState state;
    double next = 0.1;
    for (const ir::Parameter& p : module.parameters) {
      ir::Tensor tensor(p.type);
      for (double& x : tensor.data) x = next = std::fmod(next * 1.7 + 0.31, 1.0) - 0.4;
      state.tensors.emplace(p.name, std::move(tensor));
    }
    ir::Tensor image({ir::DType::f32, {1, 3, 8, 8}}), noise({ir::DType::f32, {1, 16}});
    for (std::size_t i = 0; i < image.data.size(); ++i) image.data[i] = std::sin(static_cast<double>(i));
    for (std::size_t i = 0; i < 16; ++i) noise.data[i] = static_cast<double>((i * 7) % 16) / 16;
    const auto run = [&] {
      ir::EvalState copy = state;
      return ir::evaluate(module, module.function("forward"), {image, noise}, copy);
    };
    const std::vector<ir::Tensor> before = run();
    for (std::size_t i = 0; i < 16; ++i) CHECK(before[1].data[i] == (noise.data[i] >= 4.0 / 16 ? 1 : 0));
    // Pixel (0, 0, y, x) is of patch (y / 2, x / 2).
    const auto changed = [&](std::size_t patch) {
      double& pixel = image.data[patch / 4 * 2 * 8 + patch % 4 * 2];
      const double kept = pixel;
      pixel += 1;
      const std::vector<ir::Tensor> after = run();
      pixel = kept;
      return after[0].data != before[0].data;
    };
    for (std::size_t patch = 0; patch < 16; ++patch) {
      CAPTURE(patch);
      CHECK(changed(patch) == (before[1].data[patch] == 0));
    }
  }
}

TEST_CASE("A masked autoencoder that cannot be is refused with the reason") {
  const auto refuses = [](std::string_view name, const ir::Attribute& value, const std::string& message) {
    ir::Selection options = small_mae();
    options.set(name, value);
    CHECK_THROWS_WITH(models::build(options, 2), REWIRE_CATCH_CONTAINS(message));
    CHECK_THROWS_AS(models::build(options, 2), UserError);
  };
  refuses("mask_ratio", 0.0,
          "model.mask_ratio=0 masks none of 16 patches; some must be masked, and some kept");
  refuses("mask_ratio", 1.0,
          "model.mask_ratio=1 keeps none of 16 patches; some must be masked, and some kept");
  refuses("mask_ratio", 1.5, "model.mask_ratio=1.5 is out of range");
  refuses("image", std::int64_t{9}, "model.image=9 is not a multiple of model.patch=2");
  refuses("decoder_heads", std::int64_t{5},
          "model.decoder_dim=12 is not a multiple of model.decoder_heads=5");
  refuses("dim", std::int64_t{10}, "model.dim=10 is not a multiple of 4");
  refuses("skips", std::string("u"), "it takes one of none|unet|unet_paper");
}

}  // namespace
}  // namespace rewire
