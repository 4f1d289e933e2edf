// T2T-ViT: names, shapes and counts of its authors' code, the frozen features, refusals.
#include <cmath>

#include "ir/error.h"
#include "ir/ops/work.h"
#include "ir/residual.h"
#include "ir/verify.h"
#include "models/model.h"
#include "tests/support/catch.h"

namespace rewire {
namespace {

ir::Selection small_t2t(const std::string& tokens_type) {
  return {"t2t_vit",
          {{"dim", 6},
           {"depth", 1},
           {"heads", 2},
           {"tokens_type", tokens_type},
           {"token_dim", 4},
           {"image", 32},
           {"channels", 1},
           {"classes", 3}}};
}

std::vector<std::string> shapes_of(const ir::Module& module) {
  std::vector<std::string> shapes;
  for (const ir::Parameter& p : module.parameters)
    shapes.push_back(p.name + " " + ir::to_string(p.type.shape) + (p.trainable ? "" : " frozen"));
  return shapes;
}

TEST_CASE("T2T-ViT's parameters have the names and shapes of its authors' code") {
  const std::string to = "tokens_to_token.";
  const std::vector<std::string> block = {"cls_token [1,1,6]",
                                          "pos_embed [1,5,6] frozen",
                                          "blocks.0.norm1.weight [6]",
                                          "blocks.0.norm1.bias [6]",
                                          "blocks.0.attn.qkv.weight [18,6]",
                                          "blocks.0.attn.proj.weight [6,6]",
                                          "blocks.0.attn.proj.bias [6]",
                                          "blocks.0.norm2.weight [6]",
                                          "blocks.0.norm2.bias [6]",
                                          "blocks.0.mlp.fc1.weight [18,6]",
                                          "blocks.0.mlp.fc1.bias [18]",
                                          "blocks.0.mlp.fc2.weight [6,18]",
                                          "blocks.0.mlp.fc2.bias [6]",
                                          "norm.weight [6]",
                                          "norm.bias [6]",
                                          "head.weight [3,6]",
                                          "head.bias [3]"};
  std::vector<std::string> performer, transformer;
  for (const auto& [place, in] : {std::pair{to + "attention1.", "49"}, {to + "attention2.", "36"}}) {
    const std::string width = std::string("[") + in + "]", matrix = std::string("[12,") + in + "]";
    const std::vector<std::string> norms = {place + "norm1.weight " + width, place + "norm1.bias " + width};
    const std::vector<std::string> after = {place + "norm2.weight [4]", place + "norm2.bias [4]"};
    performer.insert(performer.end(), norms.begin(), norms.end());
    for (const std::string& name :
         {"kqv.weight " + matrix, std::string("kqv.bias [12]"), std::string("w [2,4] frozen"),
          std::string("proj.weight [4,4]"), std::string("proj.bias [4]")})
      performer.push_back(place + name);
    performer.insert(performer.end(), after.begin(), after.end());
    for (const char* name : {"mlp.0.weight [4,4]", "mlp.0.bias [4]", "mlp.2.weight [4,4]", "mlp.2.bias [4]"})
      performer.push_back(place + name);
    transformer.insert(transformer.end(), norms.begin(), norms.end());
    for (const std::string& name : {"attn.qkv.weight " + matrix, std::string("attn.proj.weight [4,4]"),
                                    std::string("attn.proj.bias [4]")})
      transformer.push_back(place + name);
    transformer.insert(transformer.end(), after.begin(), after.end());
    for (const char* name :
         {"mlp.fc1.weight [4,4]", "mlp.fc1.bias [4]", "mlp.fc2.weight [4,4]", "mlp.fc2.bias [4]"})
      transformer.push_back(place + name);
  }
  for (std::vector<std::string>* names : {&performer, &transformer}) {
    names->push_back(to + "project.weight [6,36]");
    names->push_back(to + "project.bias [6]");
    names->insert(names->end(), block.begin(), block.end());
  }
  ir::Selection quiet = small_t2t("performer");
  quiet.set("token_dropout", 0);
  CHECK(shapes_of(models::build(quiet, 2)) == performer);
  CHECK(shapes_of(models::build(small_t2t("transformer"), 2)) == transformer);
}

TEST_CASE("T2T-ViT-14, -19 and -24 have the parameters that the paper prints") {
  // The authors count the position embedding, (14^2 + 1) dim sinusoids, and the features: 21.5, 39.2 and 64.1 M.
  for (const auto& [name, dim, depth, millions] : {std::tuple{"t2t_vit_14", 384.0, 14.0, 21.5},
                                                   {"t2t_vit_19", 448.0, 19.0, 39.2},
                                                   {"t2t_vit_24", 512.0, 24.0, 64.1}}) {
    CAPTURE(name);
    const ir::Module module = models::build({name}, 1);
    // A performer layer of n tokens, `in` wide: kqv, features of k and q, phi(k)^T v, phi(q) times that, proj, two of
    // the MLP; between the blocks qkv, proj, both of the MLP (3 times as wide), and attention's two products.
    const auto layer = [](double n, double in) { return n * 64 * (3 * in + 4 * 32 + 3 * 64); };
    const double products = layer(56 * 56, 147) + layer(28 * 28, 576) + 196 * 576 * dim +
                            depth * (10 * 197 * dim * dim + 2 * 197.0 * 197.0 * dim) + 1000 * dim;
    CHECK(ir::multiply_adds(module.function("forward")) == Approx(products).epsilon(1e-12));
    std::int64_t count = 0;
    for (const ir::Parameter& p : module.parameters) {
      if (p.is_weight() && p.kind == ir::StateKind::weight && p.type.dtype == ir::DType::f32)
        count += p.type.elements();
    }
    CHECK(static_cast<double>(count) * 1e-6 == Approx(millions).epsilon(0).margin(0.05));
  }
}

TEST_CASE("A performer's features are orthogonal, as long as the root of their number, and no optimizer's") {
  const ir::Module module = models::build(small_t2t("performer"), 2);
  ir::verify(module);
  for (const std::string place : {"tokens_to_token.attention1.w", "tokens_to_token.attention2.w"}) {
    const ir::Parameter* w = module.find_parameter(place);
    REQUIRE(w != nullptr);
    CHECK_FALSE(w->trainable);
    const std::vector<double>& v = w->init.values;
    REQUIRE(v.size() == 8);
    const auto dot = [&](std::size_t r, std::size_t s) {
      double total = 0;
      for (std::size_t i = 0; i < 4; ++i) total += v[4 * r + i] * v[4 * s + i];
      return total;
    };
    CHECK(dot(0, 0) == Approx(2).epsilon(1e-14));
    CHECK(dot(1, 1) == Approx(2).epsilon(1e-14));
    CHECK(std::abs(dot(0, 1)) < 1e-14);
  }
  CHECK(module.find_parameter("tokens_to_token.attention1.w")->init.values !=
        module.find_parameter("tokens_to_token.attention2.w")->init.values);
}

TEST_CASE("The layers between T2T-ViT's steps have no joins") {
  const ir::Module module = models::build(small_t2t("transformer"), 2);
  const ir::Function& forward = module.function("forward");
  const std::vector<std::size_t> joins = ir::find_joins(forward);
  REQUIRE(joins.size() == 2);
  const ir::Join first = ir::read_join(forward.body[joins[0]]);
  CHECK(first.describe() == "blocks.0.attn");
  CHECK(forward.type(first.stream).shape == ir::Shape{2, 5, 6});
}

TEST_CASE("T2T-ViT's options that do not fit are refused with the reason") {
  const auto refuses = [](std::string_view name, const ir::Attribute& value, const std::string& message) {
    ir::Selection options = small_t2t("performer");
    options.set(name, value);
    CHECK_THROWS_WITH(models::build(options, 2), REWIRE_CATCH_CONTAINS(message));
    CHECK_THROWS_AS(models::build(options, 2), UserError);
  };
  refuses("image", std::int64_t{40},
          "model.image=40 is not a multiple of 16, the stride of the three tokenisation steps");
  refuses("heads", std::int64_t{4}, "model.dim=6 is not a multiple of model.heads=4");
  refuses("mlp_ratio", 0.1, "leaves no hidden unit");
  refuses("tokens_type", std::string("convolution"), "it takes one of performer|transformer");
}

}  // namespace
}  // namespace rewire
