// The pyramid vision transformer: names, shapes and counts of its authors' code, joins by stage, refusals.
#include <algorithm>

#include "ir/error.h"
#include "ir/init_text.h"
#include "ir/opcodes.h"
#include "ir/ops/work.h"
#include "ir/residual.h"
#include "ir/verify.h"
#include "models/model.h"
#include "tests/support/catch.h"

namespace rewire {
namespace {

using ir::Doubles;

ir::Selection small_pyramid() {
  return {"pvt",
          {{"embed_dims", Doubles{6, 8}},
           {"depths", Doubles{1, 2}},
           {"num_heads", Doubles{1, 2}},
           {"mlp_ratios", Doubles{2, 1.5}},
           {"patch_sizes", Doubles{2, 2}},
           {"sr_ratios", Doubles{2, 1}},
           {"image", 8},
           {"classes", 3}}};
}

TEST_CASE("A pyramid's parameters have the names, shapes and initialisation of its authors' code") {
  ir::Selection options = small_pyramid();
  options.set("depths", Doubles{1, 1});
  std::vector<std::string> got;
  for (const ir::Parameter& p : models::build(options, 2).parameters)
    got.push_back(p.name + " " + ir::to_string(p.type.shape) + " " + ir::to_string(p.init).substr(0, 7));
  const std::vector<std::string> want = {"patch_embed1.proj.weight [6,1,2,2] uniform",
                                         "patch_embed1.proj.bias [6] uniform",
                                         "patch_embed1.norm.weight [6] ones",
                                         "patch_embed1.norm.bias [6] zeros",
                                         "pos_embed1 [1,16,6] trunc_n",
                                         "block1.0.norm1.weight [6] ones",
                                         "block1.0.norm1.bias [6] zeros",
                                         "block1.0.attn.q.weight [6,6] trunc_n",
                                         "block1.0.attn.q.bias [6] zeros",
                                         "block1.0.attn.sr.weight [6,6,2,2] uniform",
                                         "block1.0.attn.sr.bias [6] uniform",
                                         "block1.0.attn.norm.weight [6] ones",
                                         "block1.0.attn.norm.bias [6] zeros",
                                         "block1.0.attn.kv.weight [12,6] trunc_n",
                                         "block1.0.attn.kv.bias [12] zeros",
                                         "block1.0.attn.proj.weight [6,6] trunc_n",
                                         "block1.0.attn.proj.bias [6] zeros",
                                         "block1.0.norm2.weight [6] ones",
                                         "block1.0.norm2.bias [6] zeros",
                                         "block1.0.mlp.fc1.weight [12,6] trunc_n",
                                         "block1.0.mlp.fc1.bias [12] zeros",
                                         "block1.0.mlp.fc2.weight [6,12] trunc_n",
                                         "block1.0.mlp.fc2.bias [6] zeros",
                                         "patch_embed2.proj.weight [8,6,2,2] uniform",
                                         "patch_embed2.proj.bias [8] uniform",
                                         "patch_embed2.norm.weight [8] ones",
                                         "patch_embed2.norm.bias [8] zeros",
                                         "cls_token [1,1,8] trunc_n",
                                         "pos_embed2 [1,5,8] trunc_n",
                                         "block2.0.norm1.weight [8] ones",
                                         "block2.0.norm1.bias [8] zeros",
                                         "block2.0.attn.q.weight [8,8] trunc_n",
                                         "block2.0.attn.q.bias [8] zeros",
                                         "block2.0.attn.kv.weight [16,8] trunc_n",
                                         "block2.0.attn.kv.bias [16] zeros",
                                         "block2.0.attn.proj.weight [8,8] trunc_n",
                                         "block2.0.attn.proj.bias [8] zeros",
                                         "block2.0.norm2.weight [8] ones",
                                         "block2.0.norm2.bias [8] zeros",
                                         "block2.0.mlp.fc1.weight [12,8] trunc_n",
                                         "block2.0.mlp.fc1.bias [12] zeros",
                                         "block2.0.mlp.fc2.weight [8,12] trunc_n",
                                         "block2.0.mlp.fc2.bias [8] zeros",
                                         "norm.weight [8] ones",
                                         "norm.bias [8] zeros",
                                         "head.weight [3,8] trunc_n",
                                         "head.bias [3] zeros"};
  CHECK(got == want);
}

TEST_CASE("PVT-small and PVT-medium have the parameters and multiply-adds that their papers print") {
  // Parameters as the authors' code has them; 24.5 M and 44.2 M, 3.8 and 6.7 GMACs in print.
  for (const auto& [name, count, gmacs] :
       {std::tuple{"pvt_small", std::int64_t{24485864}, 3.8}, {"pvt_medium", std::int64_t{44208104}, 6.7}}) {
    CAPTURE(name);
    const ir::Module module = models::build({name}, 1);
    std::int64_t got = 0;
    for (const ir::Parameter& p : module.parameters) got += p.type.elements();
    CHECK(got == count);
    CHECK(ir::multiply_adds(module.function("forward")) * 1e-9 == Approx(gmacs).epsilon(0).margin(0.05));
  }
}

TEST_CASE("A pyramid's joins are counted over its stages and tell theirs") {
  const ir::Module module = models::build(small_pyramid(), 2);
  ir::verify(module);
  const ir::Function& forward = module.function("forward");
  const std::vector<std::string> places = {"block1.0", "block2.0", "block2.1"};
  const std::vector<std::size_t> joins = ir::find_joins(forward);
  REQUIRE(joins.size() == 6);
  for (std::size_t i = 0; i < joins.size(); ++i) {
    const ir::Join join = ir::read_join(forward.body[joins[i]]);
    const bool later = i >= 2;
    CHECK(join.place == places[i / 2]);
    CHECK(join.stage == (later ? 1 : 0));
    CHECK(join.block == static_cast<std::int64_t>(i / 2));
    CHECK(join.join_index == static_cast<std::int64_t>(i));
    CHECK(join.join_count == 6);
    CHECK(join.heads == (later ? 2 : 1));
    CHECK(forward.type(join.stream).shape == (later ? ir::Shape{2, 5, 8} : ir::Shape{2, 16, 6}));
    CHECK(module.find_parameter(join.last_weight) != nullptr);
  }
}

TEST_CASE("Drop path grows over all blocks of a pyramid") {
  ir::Selection options = small_pyramid();
  options.set("drop_path", 0.2);
  const ir::Module module = models::build(options, 2);
  std::vector<double> rates;
  for (const ir::Op& op : module.function("forward").body) {
    if (op.code == ir::Opcode::drop_path) rates.push_back(op.attributes.get_double("probability"));
  }
  CHECK(rates == std::vector<double>{0.1, 0.1, 0.2, 0.2});
}

TEST_CASE("A pyramid whose lists do not go together is refused with the stage and the reason") {
  const auto refuses = [](std::string_view name, const ir::Attribute& value, const std::string& message) {
    ir::Selection options = small_pyramid();
    options.set(name, value);
    CAPTURE(message);
    CHECK_THROWS_WITH(models::build(options, 2), REWIRE_CATCH_CONTAINS(message));
    CHECK_THROWS_AS(models::build(options, 2), UserError);
  };
  refuses("patch_sizes", Doubles{2, 3},
          "stage 2: maps of 4 x 4 do not divide into patches of 3 x 3; model.image=8 must be");
  refuses("sr_ratios", Doubles{3, 1}, "stage 1: the 3 of model.sr_ratios does not divide maps of 4 x 4");
  refuses("sr_ratios", Doubles{2, 2}, "model.sr_ratios ends with 2; the last stage takes 1");
  refuses("num_heads", Doubles{4, 2}, "stage 1: model.embed_dims has 6, which is not a multiple of the 4");
  refuses("depths", Doubles{1, 2, 1}, "model.depths has 3 entries and model.embed_dims 2");
  refuses("depths", Doubles{1, 1.5}, "model.depths has 1.5 for stage 2; it takes whole numbers");
  refuses("depths", Doubles{1, 0}, "model.depths");
  refuses("mlp_ratios", Doubles{0.1, 1}, "stage 1: model.embed_dims has 6, which times model.mlp_ratios");
}

}  // namespace
}  // namespace rewire
