// The interpolant transformer: names and shapes of its authors' code, how it starts, its joins and skips, refusals.
#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/residual.h"
#include "ir/verify.h"
#include "models/model.h"
#include "tests/support/catch.h"

namespace rewire {
namespace {

ir::Selection small_sit(const std::string& skips = "none", std::int64_t depth = 3) {
  return {"sit",
          {{"image", std::int64_t{4}},
           {"patch", std::int64_t{2}},
           {"channels", std::int64_t{3}},
           {"dim", std::int64_t{8}},
           {"depth", depth},
           {"heads", std::int64_t{2}},
           {"classes", std::int64_t{5}},
           {"skips", skips}}};
}

TEST_CASE("An interpolant transformer's parameters have the names and shapes of its authors' code") {
  const ir::Module module = models::build(small_sit("none", 1), 2);
  CHECK_NOTHROW(ir::verify(module));
  std::vector<std::string> shapes;
  for (const ir::Parameter& p : module.parameters)
    shapes.push_back(p.name + " " + ir::to_string(p.type.shape) + (p.trainable ? "" : " frozen"));
  CHECK(shapes == std::vector<std::string>{"pos_embed [1,4,8] frozen",
                                           "x_embedder.proj.weight [8,3,2,2]",
                                           "x_embedder.proj.bias [8]",
                                           "t_embedder.mlp.0.weight [8,256]",
                                           "t_embedder.mlp.0.bias [8]",
                                           "t_embedder.mlp.2.weight [8,8]",
                                           "t_embedder.mlp.2.bias [8]",
                                           "y_embedder.embedding_table.weight [6,8]",
                                           "blocks.0.adaLN_modulation.1.weight [48,8]",
                                           "blocks.0.adaLN_modulation.1.bias [48]",
                                           "blocks.0.attn.qkv.weight [24,8]",
                                           "blocks.0.attn.qkv.bias [24]",
                                           "blocks.0.attn.proj.weight [8,8]",
                                           "blocks.0.attn.proj.bias [8]",
                                           "blocks.0.mlp.fc1.weight [32,8]",
                                           "blocks.0.mlp.fc1.bias [32]",
                                           "blocks.0.mlp.fc2.weight [8,32]",
                                           "blocks.0.mlp.fc2.bias [8]",
                                           "final_layer.adaLN_modulation.1.weight [16,8]",
                                           "final_layer.adaLN_modulation.1.bias [16]",
                                           "final_layer.linear.weight [24,8]",
                                           "final_layer.linear.bias [24]"});
  // 675 million, as the paper rounds them.
  std::int64_t count = 0;
  for (const ir::Parameter& p : models::build({"sit_xl_2"}, 1).parameters) count += p.type.elements();
  CHECK(count == 675129632);
}

TEST_CASE("Half of the channels at the end, and the class that is none, are options") {
  ir::Selection plain = small_sit();
  plain.set("learn_sigma", false).set("null_class", false);
  const ir::Module module = models::build(plain, 2);
  CHECK(module.find_parameter("final_layer.linear.weight")->type.shape == ir::Shape{12, 8});
  CHECK(module.find_parameter("y_embedder.embedding_table.weight")->type.shape == ir::Shape{5, 8});
  for (const ir::Module& each : {module, models::build(small_sit(), 2)}) {
    const ir::Function& forward = each.function("forward");
    CHECK(forward.type(forward.result("velocity")).shape == ir::Shape{2, 3, 4, 4});
  }
}

TEST_CASE(
    "All joins of an interpolant transformer are of one scope, and its branches start at 0 by their gates") {
  const ir::Module module = models::build(small_sit("unet"), 2);
  const ir::Function& forward = module.function("forward");
  std::int64_t index = 0;
  for (const std::size_t at : ir::find_joins(forward)) {
    const ir::Join join = ir::read_join(forward.body[at]);
    CHECK(join.scope == "encoder");
    CHECK(join.block == index / 2);
    CHECK(join.join_index == index++);
    CHECK(join.join_count == 6);
    CHECK(join.last_weight == "blocks." + std::to_string(join.block) + ".adaLN_modulation.1.weight");
  }
  CHECK(index == 6);
  for (const char* zero : {"blocks.0.adaLN_modulation.1.weight", "blocks.2.adaLN_modulation.1.bias",
                           "final_layer.adaLN_modulation.1.weight", "final_layer.linear.weight"}) {
    CAPTURE(zero);
    CHECK(module.find_parameter(zero)->init.kind == ir::InitKind::zeros);
  }
  CHECK(module.find_parameter("blocks.0.attn.proj.weight")->init.kind == ir::InitKind::xavier_uniform);
}

TEST_CASE("The second half's blocks read the first half's, the last first, around a middle block") {
  for (const std::int64_t depth : {4, 5}) {
    CAPTURE(depth);
    const ir::Module module = models::build(small_sit("unet", depth), 2);
    for (std::int64_t i = 0; i < depth; ++i) {
      CAPTURE(i);
      CHECK((module.find_parameter("blocks." + std::to_string(i) + ".skip.weight") != nullptr) ==
            (i >= depth - depth / 2));
    }
    // x + W u: the operand of block i's layer `skip` is the stream behind block depth - 1 - i.
    const ir::Function& forward = module.function("forward");
    std::vector<ir::Value> behind;
    for (const std::size_t at : ir::find_joins(forward)) behind.push_back(forward.body[at].results[0]);
    for (std::int64_t i = depth - depth / 2; i < depth; ++i) {
      const std::string place = "blocks." + std::to_string(i) + ".skip";
      const auto product = std::ranges::find_if(forward.body, [&](const ir::Op& op) {
        return op.location == place && op.code == ir::Opcode::matmul;
      });
      REQUIRE(product != forward.body.end());
      const auto defined = [&](ir::Value value) {
        return std::ranges::find_if(forward.body, [&](const ir::Op& op) { return op.results[0] == value; });
      };
      ir::Value read = product->operands[0];
      while (defined(read)->code == ir::Opcode::reshape) read = defined(read)->operands[0];
      CHECK(read == behind[static_cast<std::size_t>(2 * (depth - 1 - i) + 1)]);
    }
  }
}

TEST_CASE("An interpolant transformer that cannot be is refused with the reason") {
  const auto refuses = [](std::string_view name, const ir::Attribute& value, const std::string& message) {
    ir::Selection options = small_sit();
    options.set(name, value);
    CHECK_THROWS_WITH(models::build(options, 2), REWIRE_CATCH_CONTAINS(message));
    CHECK_THROWS_AS(models::build(options, 2), UserError);
  };
  refuses("heads", std::int64_t{3}, "model.dim=8 is not a multiple of model.heads=3");
  refuses("dim", std::int64_t{6}, "model.dim=6 is not a multiple of 4");
  refuses("image", std::int64_t{5}, "model.image=5 is not a multiple of model.patch=2");
  refuses("mlp_ratio", 0.01, "leaves no hidden unit");
  refuses("skips", std::string("unet_paper"), "it takes one of none|unet");
}

}  // namespace
}  // namespace rewire
