// The vision transformer against timm's facts: names, shapes, initialisation, order, counts, joins, rates,
// errors. The numbers it computes are held to PyTorch in tests/parity.
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/init_text.h"
#include "ir/opcodes.h"
#include "ir/ops/work.h"
#include "ir/residual.h"
#include "ir/verify.h"
#include "models/model.h"
#include "tests/support/catch.h"

namespace rewire {
namespace {

using ir::Opcode;

ir::Selection small() {
  ir::Selection options{"vit"};
  options.set("dim", 12).set("depth", 3).set("heads", 2).set("patch", 3).set("image", 6);
  options.set("mlp_ratio", 1.3);  // 15.6 hidden units: 15
  options.set("channels", 2).set("classes", 5);
  return options;
}

std::vector<std::string> vit_names() {
  std::vector<std::string> names;
  for (const models::Variant& variant : models::find_model("vit").family->variants)
    names.emplace_back(variant.name);
  return names;
}

std::int64_t trainable_count(const ir::Module& module) {
  std::int64_t count = 0;
  for (const ir::Parameter& p : module.parameters) count += p.trainable ? p.type.elements() : 0;
  return count;
}

std::vector<const ir::Op*> ops_of(const ir::Module& module, Opcode code) {
  std::vector<const ir::Op*> found;
  for (const ir::Op& op : module.function("forward").body) {
    if (op.code == code) found.push_back(&op);
  }
  return found;
}

TEST_CASE("Parameters carry timm's names, shapes and initialisation, in its order") {
  ir::Selection options = small();
  options.set("depth", 1);
  const ir::Module module = models::build(options, 2);
  std::vector<std::string> got;
  for (const ir::Parameter& p : module.parameters)
    got.push_back(p.name + " " + ir::to_string(p.type.shape) + " " + ir::to_string(p.init));
  const std::string matrix = " trunc_normal(0.02, 2.0)";
  // PyTorch's Conv2d, which timm leaves alone: within 1 / sqrt(2 channels x 3 x 3).
  const std::string bound = ir::spell_double(1 / std::sqrt(18.0));
  const std::string convolution = " uniform(-" + bound + ", " + bound + ")";
  const std::vector<std::string> want = {"cls_token [1,1,12] normal(1e-06)",
                                         "pos_embed [1,5,12]" + matrix,
                                         "patch_embed.proj.weight [12,2,3,3]" + convolution,
                                         "patch_embed.proj.bias [12]" + convolution,
                                         "blocks.0.norm1.weight [12] ones",
                                         "blocks.0.norm1.bias [12] zeros",
                                         "blocks.0.attn.qkv.weight [36,12]" + matrix,
                                         "blocks.0.attn.qkv.bias [36] zeros",
                                         "blocks.0.attn.proj.weight [12,12]" + matrix,
                                         "blocks.0.attn.proj.bias [12] zeros",
                                         "blocks.0.norm2.weight [12] ones",
                                         "blocks.0.norm2.bias [12] zeros",
                                         "blocks.0.mlp.fc1.weight [15,12]" + matrix,
                                         "blocks.0.mlp.fc1.bias [15] zeros",
                                         "blocks.0.mlp.fc2.weight [12,15]" + matrix,
                                         "blocks.0.mlp.fc2.bias [12] zeros",
                                         "norm.weight [12] ones",
                                         "norm.bias [12] zeros",
                                         "head.weight [5,12]" + matrix,
                                         "head.bias [5] zeros"};
  CHECK(got == want);
}

TEST_CASE("The zoo has timm's parameter counts") {
  // Counted in timm 1.0 with the same options.
  const std::vector<std::pair<std::string, std::int64_t>> want = {
      {"vit_tiny_28", 5353738},  {"vit_s_cifar", 10695562}, {"vit_s16_224", 22050664},
      {"vit_b16_224", 86567656}, {"deit_tiny", 5717416},    {"deit_small", 22050664},
      {"deit_base", 86567656}};
  std::vector<std::string> names;
  for (const auto& [name, count] : want) {
    names.push_back(name);
    const ir::Module module = models::build({name}, 1);
    CHECK(module.name == name);
    CHECK(trainable_count(module) == count);
  }
  CHECK(vit_names() == names);
}

TEST_CASE("Every model of the zoo verifies and maps images to logits") {
  for (const std::string& name : vit_names()) {
    CAPTURE(name);
    const ir::Attributes o = models::options_of({name});
    const ir::Module module = models::build({name}, 3);
    CHECK_NOTHROW(ir::verify(module));
    const ir::Function& forward = module.function("forward");
    REQUIRE(forward.arguments.size() == 1);
    CHECK(forward.type(forward.argument("image")) ==
          ir::TensorType{ir::DType::f32, {3, o.get_int("channels"), o.get_int("image"), o.get_int("image")}});
    CHECK(forward.type(forward.result("logits")) ==
          ir::TensorType{ir::DType::f32, {3, o.get_int("classes")}});
  }
}

/// "NAME [shape]" of those parameters that the other module has not, in order.
std::vector<std::string> names_beyond(const ir::Module& module, const ir::Module& other) {
  std::vector<std::string> names;
  for (const ir::Parameter& p : module.parameters) {
    const ir::Parameter* same = other.find_parameter(p.name);
    if (same == nullptr || same->type != p.type) names.push_back(p.name + " " + ir::to_string(p.type.shape));
  }
  return names;
}

TEST_CASE("Each of timm's options adds, names and leaves out the parameters that timm's does") {
  using Names = std::vector<std::string>;
  struct Row {
    std::string what;
    ir::Attributes options;
    Names added, removed;
  };
  const Names norm = {"norm.weight [12]", "norm.bias [12]"};
  const Names positions = {"cls_token [1,1,12]", "pos_embed [1,5,12]"};
  const std::vector<Row> rows = {
      {"registers",
       {{"reg_tokens", 3}},
       {"reg_token [1,3,12]", "pos_embed [1,8,12]"},
       {"pos_embed [1,5,12]"}},
      {"positions of patches", {{"no_embed_class", true}}, {"pos_embed [1,4,12]"}, {"pos_embed [1,5,12]"}},
      {"registers without positions",
       {{"no_embed_class", true}, {"reg_tokens", 3}},
       {"reg_token [1,3,12]", "pos_embed [1,4,12]"},
       {"pos_embed [1,5,12]"}},
      {"a mean without a class token", {{"pool", "avg"}}, {"pos_embed [1,4,12]"}, positions},
      {"a mean, and no class token in words",
       {{"pool", "avg"}, {"class_token", "false"}},
       {"pos_embed [1,4,12]"},
       positions},
      {"a mean beside a class token", {{"pool", "avg"}, {"class_token", "true"}}, {}, {}},
      {"a norm behind the pooling", {{"fc_norm", true}}, {"fc_norm.weight [12]", "fc_norm.bias [12]"}, norm},
      {"a distillation token",
       {{"distilled", true}},
       {"dist_token [1,1,12]", "pos_embed [1,6,12]", "head_dist.weight [5,12]", "head_dist.bias [5]"},
       {"pos_embed [1,5,12]"}},
      {"a norm before the blocks",
       {{"pre_norm", true}},
       {"norm_pre.weight [12]", "norm_pre.bias [12]"},
       {"patch_embed.proj.bias [12]"}},
      {"layer scale",
       {{"init_values", 1e-5}},
       {"blocks.0.ls1.gamma [12]", "blocks.0.ls2.gamma [12]", "blocks.1.ls1.gamma [12]",
        "blocks.1.ls2.gamma [12]", "blocks.2.ls1.gamma [12]", "blocks.2.ls2.gamma [12]"},
       {}},
      {"no bias of qkv",
       {{"qkv_bias", false}},
       {},
       {"blocks.0.attn.qkv.bias [36]", "blocks.1.attn.qkv.bias [36]", "blocks.2.attn.qkv.bias [36]"}},
      {"no head", {{"classes", 0}}, {}, {"head.weight [5,12]", "head.bias [5]"}}};
  const ir::Module plain = models::build(small(), 2);
  for (const Row& row : rows) {
    CAPTURE(row.what);
    ir::Selection options = small();
    for (const auto& [name, value] : row.options) options.values.set(name, value);
    const ir::Module module = models::build(options, 2);
    CHECK_NOTHROW(ir::verify(module));
    CHECK(names_beyond(module, plain) == row.added);
    CHECK(names_beyond(plain, module) == row.removed);
  }
  ir::Selection bare = small();
  bare.set("norm_affine", false);
  CHECK(names_beyond(models::build(bare, 2), plain).empty());
  CHECK(names_beyond(plain, models::build(bare, 2)).size() == 14);  // weight and bias of seven norms
}

TEST_CASE("Registers and layer scale start and decay as timm's, and layer scale is of its block and site") {
  ir::Selection options = small();
  options.set("reg_tokens", 2).set("init_values", 0.25);
  const ir::Module module = models::build(options, 2);
  const ir::Parameter *registers = module.find_parameter("reg_token"),
                      *gamma = module.find_parameter("blocks.2.ls2.gamma");
  REQUIRE(registers != nullptr);
  CHECK(ir::to_string(registers->init) == "normal(1e-06)");
  CHECK_FALSE(registers->decay);
  REQUIRE(gamma != nullptr);
  CHECK(ir::to_string(gamma->init) == "constant(0.25)");
  CHECK_FALSE(gamma->decay);
  CHECK(gamma->role == "layer_scale");
  CHECK(gamma->block == 2);
  CHECK(gamma->site == "mlp");
  CHECK(module.parameters.at(1).name == "reg_token");  // timm's order
}

TEST_CASE("The paper's network on orthogonal updates has its norms, its start and its patches") {
  ir::Selection options{"oru_vit"};
  options.set("dim", 12).set("depth", 1).set("heads", 2).set("image", 6).set("patch", 3).set("channels", 2);
  const ir::Module module = models::build(options, 2);
  CHECK_NOTHROW(ir::verify(module));
  const auto within = [](double fan_in) {
    const std::string bound = ir::spell_double(1 / std::sqrt(fan_in));
    return " uniform(-" + bound + ", " + bound + ")";
  };
  std::vector<std::string> got;
  for (const ir::Parameter& p : module.parameters)
    got.push_back(p.name + " " + ir::to_string(p.type.shape) + " " + ir::to_string(p.init));
  const std::vector<std::string> want = {"cls_token [1,1,12] zeros",
                                         "pos_embed [1,4,12] normal(0.02)",
                                         "patch_embed.proj.weight [12,2,3,3]" + within(18),
                                         "patch_embed.proj.bias [12]" + within(18),
                                         "blocks.0.attn.qkv.weight [36,12]" + within(12),
                                         "blocks.0.attn.qkv.bias [36]" + within(12),
                                         "blocks.0.attn.proj.weight [12,12]" + within(12),
                                         "blocks.0.attn.proj.bias [12]" + within(12),
                                         "blocks.0.mlp.fc1.weight [48,12]" + within(12),
                                         "blocks.0.mlp.fc1.bias [48]" + within(12),
                                         "blocks.0.mlp.fc2.weight [12,48]" + within(48),
                                         "blocks.0.mlp.fc2.bias [12]" + within(48),
                                         "norm.weight [12] ones",
                                         "norm.bias [12] zeros",
                                         "head.weight [10,12]" + within(12),
                                         "head.bias [10]" + within(12)};
  CHECK(got == want);
  for (const auto& [image, patch] : {std::pair{32, 4}, std::pair{64, 8}, std::pair{224, 16}}) {
    CAPTURE(image);
    const ir::Module sized = models::build(ir::Selection{"oru_vit_s"}.set("image", image), 1);
    const ir::Parameter* convolution = sized.find_parameter("patch_embed.proj.weight");
    REQUIRE(convolution != nullptr);
    CHECK(convolution->type.shape == ir::Shape{384, 3, patch, patch});
  }
  CHECK_THROWS_WITH(models::build(ir::Selection{"oru_vit_s"}.set("image", 48), 1),
                    REWIRE_CATCH_CONTAINS("at 48 set model.patch"));
}

TEST_CASE("Mean pooling has no cls token and one position for each patch") {
  ir::Selection options = small();
  options.set("pool", "avg");
  const ir::Module module = models::build(options, 2);
  CHECK(module.find_parameter("cls_token") == nullptr);
  REQUIRE(module.find_parameter("pos_embed") != nullptr);
  CHECK(module.find_parameter("pos_embed")->type.shape == ir::Shape{1, 4, 12});
}

TEST_CASE("The MLP's activation is GELU by erf, or by tanh where timm's gelu_tanh is asked for") {
  for (const auto& [act_layer, approximate] : {std::pair{"gelu", "none"}, std::pair{"gelu_tanh", "tanh"}}) {
    ir::Selection options = small();
    CHECK(models::options_of(options).get_string("act_layer") == "gelu");
    options.set("act_layer", act_layer);
    const ir::Module module = models::build(options, 2);
    const std::vector<const ir::Op*> activations = ops_of(module, Opcode::gelu);
    REQUIRE(activations.size() == 3);
    for (const ir::Op* op : activations) {
      CHECK(op->attributes.get_string("approximate") == approximate);
      CHECK(op->location.ends_with(".mlp.act"));
    }
    CHECK(module.attributes.get_string("act_layer") == act_layer);
  }
}

TEST_CASE("Matrices decay; vectors, the cls token and the position embedding do not") {
  for (const ir::Parameter& p : models::build(small(), 2).parameters) {
    CAPTURE(p.name);
    const bool embedding = p.name == "cls_token" || p.name == "pos_embed";
    CHECK(p.decay == (p.type.rank() > 1 && !embedding));
    CHECK(p.trainable);
  }
}

TEST_CASE("Parameters know their role, site and block") {
  const ir::Module module = models::build(small(), 2);
  struct Row {
    std::string name, role, site;
    int block;
  };
  const std::vector<Row> rows = {{"cls_token", "cls_token", "", -1},
                                 {"pos_embed", "pos_embed", "", -1},
                                 {"patch_embed.proj.weight", "patch_embed", "", -1},
                                 {"blocks.1.norm1.weight", "norm", "attn", 1},
                                 {"blocks.1.attn.qkv.bias", "qkv", "attn", 1},
                                 {"blocks.2.attn.proj.weight", "proj", "attn", 2},
                                 {"blocks.2.norm2.bias", "norm", "mlp", 2},
                                 {"blocks.0.mlp.fc1.weight", "fc1", "mlp", 0},
                                 {"blocks.0.mlp.fc2.bias", "fc2", "mlp", 0},
                                 {"norm.weight", "norm", "", -1},
                                 {"head.weight", "head", "", -1}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const ir::Parameter* p = module.find_parameter(row.name);
    REQUIRE(p != nullptr);
    CHECK(p->role == row.role);
    CHECK(p->site == row.site);
    CHECK(p->block == row.block);
  }
}

TEST_CASE("Joins carry all that a plugin may ask") {
  const ir::Module module = models::build(small(), 2);
  const ir::Function& forward = module.function("forward");
  const std::vector<std::size_t> joins = ir::find_joins(forward);
  REQUIRE(joins.size() == 6);
  const std::vector<std::int32_t> definition = forward.definitions();
  auto op_of = [&](ir::Value value) -> const ir::Op& {
    return forward.body.at(static_cast<std::size_t>(definition.at(static_cast<std::size_t>(value.id))));
  };
  for (std::size_t i = 0; i < joins.size(); ++i) {
    CAPTURE(i);
    const ir::Join join = ir::read_join(forward.body[joins[i]]);
    const bool attention = i % 2 == 0;
    const std::string block = "blocks." + std::to_string(i / 2);
    CHECK(join.describe() == block + (attention ? ".attn" : ".mlp"));
    CHECK(forward.body[joins[i]].location == join.describe());
    CHECK(join.block == static_cast<std::int64_t>(i / 2));
    CHECK(join.site == (attention ? "attn" : "mlp"));
    CHECK(join.scope == "encoder");
    CHECK(join.join_index == static_cast<std::int64_t>(i));
    CHECK(join.join_count == 6);
    CHECK(join.heads == 2);
    CHECK(join.last_weight == block + (attention ? ".attn.proj.weight" : ".mlp.fc2.weight"));
    CHECK(module.find_parameter(join.last_weight) != nullptr);
    CHECK(join.shortcut == join.stream);
    CHECK(join.branch_slot == join.branch);
    CHECK(join.paths.empty());
    CHECK(op_of(join.input).code == Opcode::layer_norm);
    CHECK(op_of(join.input).operands.at(0) == join.stream);
    CHECK(op_of(join.input).location == block + (attention ? ".norm1" : ".norm2"));
    if (i > 0) CHECK(join.stream == forward.body[joins[i - 1]].results.at(0));
  }
}

TEST_CASE("Without dropout and drop path a model has no state but its weights") {
  const ir::Module module = models::build(small(), 2);
  for (const ir::Parameter& p : module.parameters) CHECK(p.trainable);
  CHECK(ops_of(module, Opcode::is_training).empty());
}

TEST_CASE("Drop path grows linearly from 0 to its rate, on a stream for each join") {
  ir::Selection options = small();
  options.set("drop_path", 0.2);
  const ir::Module module = models::build(options, 2);
  CHECK_NOTHROW(ir::verify(module));
  std::vector<std::pair<std::string, double>> got;
  for (const ir::Op* op : ops_of(module, Opcode::drop_path)) {
    got.emplace_back(op->attributes.get_string("stream"), op->attributes.get_double("probability"));
  }
  const std::vector<std::pair<std::string, double>> want = {{"blocks.1.attn.drop_path", 0.1},
                                                            {"blocks.1.mlp.drop_path", 0.1},
                                                            {"blocks.2.attn.drop_path", 0.2},
                                                            {"blocks.2.mlp.drop_path", 0.2}};
  CHECK(got == want);
  // The branch that a plugin sees is the one after drop path.
  const ir::Function& forward = module.function("forward");
  const ir::Join last = ir::read_join(forward.body[ir::find_joins(forward).back()]);
  CHECK(ops_of(module, Opcode::drop_path).back()->results.at(0) == last.branch);
  for (std::string_view name : {"rng.seed", "train.step"}) {
    const ir::Parameter* state = module.find_parameter(name);
    REQUIRE(state != nullptr);
    CHECK(state->type == ir::TensorType{ir::DType::i64, {}});
    CHECK_FALSE(state->trainable);
  }
}

TEST_CASE("A model of one block drops no path, as in timm") {
  ir::Selection options = small();
  options.set("depth", 1);
  options.set("drop_path", 0.5);
  CHECK(ops_of(models::build(options, 2), Opcode::drop_path).empty());
}

TEST_CASE("Dropout stands where timm has it, on distinct streams") {
  ir::Selection options = small();
  options.set("dropout", 0.1);
  const ir::Module module = models::build(options, 2);
  CHECK_NOTHROW(ir::verify(module));
  std::set<std::string> got;
  for (const ir::Op* op : ops_of(module, Opcode::dropout)) {
    got.insert(op->attributes.get_string("stream"));
    CHECK(op->attributes.get_double("probability") == 0.1);
  }
  std::set<std::string> want = {"pos_drop"};
  for (int i = 0; i < 3; ++i) {
    const std::string block = "blocks." + std::to_string(i);
    want.insert({block + ".attn.proj_drop", block + ".mlp.drop1", block + ".mlp.drop2"});
  }
  CHECK(got == want);
  CHECK(ops_of(module, Opcode::dropout).size() == want.size());
}

TEST_CASE("Options that do not fit are refused with the reason and the way out") {
  auto refuses = [](auto change, const std::string& message) {
    ir::Selection options = small();
    change(options);
    CAPTURE(message);
    CHECK_THROWS_WITH(models::build(options, 2), REWIRE_CATCH_CONTAINS(message));
    CHECK_THROWS_AS(models::build(options, 2), UserError);
  };
  refuses([](auto& o) { o.set("heads", 5); }, "model.dim=12 is not a multiple of model.heads=5");
  refuses([](auto& o) { o.set("patch", 4); }, "model.image=6 is not a multiple of model.patch=4");
  refuses([](auto& o) { o.set("depth", 0); }, "model.depth=0 is out of range: it takes an int 1 to 4096");
  refuses([](auto& o) { o.set("dim", std::int64_t{1} << 60); },
          "model.dim=1152921504606846976 is out of range");
  refuses([](auto& o) { o.set("channels", -1); }, "model.channels=-1 is out of range");
  refuses([](auto& o) { o.set("pool", "average"); },
          "model.pool=average is unknown: it takes one of token|avg");
  refuses([](auto& o) { o.set("act_layer", "gelu_tan"); },
          "model.act_layer=gelu_tan is unknown: it takes one of gelu|gelu_tanh|quick_gelu (did you mean "
          "'gelu_tanh'?)");
  refuses([](auto& o) { o.set("drop_path", 1); }, "model.drop_path=1 is out of range");
  refuses([](auto& o) { o.set("dropout", std::numeric_limits<double>::quiet_NaN()); },
          "model.dropout=nan is not a finite float");
  refuses([](auto& o) { o.set("mlp_ratio", 0.01); }, "leaves no hidden unit");
  refuses([](auto& o) { o.set("class_token", "false"); },
          "model.class_token=false leaves model.pool=token nothing to classify; set model.pool=avg");
  refuses([](auto& o) { o.set("distilled", true).set("pool", "avg"); },
          "model.distilled=true classifies the class token and the distillation token");
  refuses([](auto& o) { o.set("norm_eps", 0.0); }, "model.norm_eps=0 is out of range");
  refuses([](auto& o) { o.set("reg_tokens", -1); }, "model.reg_tokens=-1 is out of range");
  refuses([](auto& o) { o.set("init_values", -0.1); }, "model.init_values=-0.1 is out of range");
  CHECK_THROWS_WITH(models::build(small(), 0), REWIRE_CATCH_CONTAINS("the batch is 0"));
  CHECK_THROWS_WITH(models::build({"vit_tny_28"}, 1), REWIRE_CATCH_CONTAINS("did you mean 'vit_tiny_28'?"));
}

TEST_CASE("In evaluation a model with dropout and drop path is the model without") {
  ir::Selection options = small();
  const ir::Module plain = models::build(options, 2);
  options.set("dropout", 0.3);
  options.set("drop_path", 0.4);
  const ir::Module dropping = models::build(options, 2);
  ir::EvalState state;
  int k = 0;
  for (const ir::Parameter& p : dropping.parameters) {
    ir::Tensor tensor(p.type);
    if (p.trainable) {
      for (double& value : tensor.data) value = std::sin(0.7 * ++k);
    }
    state.tensors.emplace(p.name, std::move(tensor));
  }
  ir::Tensor image({ir::DType::f32, {2, 2, 6, 6}});
  for (double& value : image.data) value = std::cos(0.3 * ++k);
  auto logits = [&](const ir::Module& module, bool training) {
    state.training = training;
    return ir::evaluate(module, module.function("forward"), {image}, state).at(0).data;
  };
  const std::vector<double> want = logits(plain, false);
  CHECK(logits(dropping, false) == want);
  const std::vector<double> dropped = logits(dropping, true);
  CHECK(dropped != want);
  CHECK(logits(dropping, true) == dropped);
  state.tensors.at("train.step").data[0] = 1;
  CHECK(logits(dropping, true) != dropped);
}

TEST_CASE("A network without a head gives what the head would see") {
  ir::Selection options = small();
  const ir::Module whole = models::build(options, 2);
  options.set("classes", 0);
  const ir::Module headless = models::build(options, 2);
  CHECK_FALSE(headless.function("forward").result("logits"));
  ir::EvalState state;
  int k = 0;
  for (const ir::Parameter& p : whole.parameters) {
    ir::Tensor tensor(p.type);
    for (double& value : tensor.data) value = std::sin(0.7 * ++k);
    state.tensors.emplace(p.name, std::move(tensor));
  }
  ir::Tensor image({ir::DType::f32, {2, 2, 6, 6}});
  for (double& value : image.data) value = std::cos(0.3 * ++k);
  const auto result = [&](const ir::Module& module) {
    return ir::evaluate(module, module.function("forward"), {image}, state).at(0);
  };
  const ir::Tensor logits = result(whole), features = result(headless);
  REQUIRE(features.type == ir::TensorType{ir::DType::f32, {2, 12}});
  const std::vector<double>&weight = state.tensors.at("head.weight").data,
        &bias = state.tensors.at("head.bias").data;
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t c = 0; c < 5; ++c) {
      double want = bias[c];
      for (std::size_t i = 0; i < 12; ++i) want += features.data[row * 12 + i] * weight[c * 12 + i];
      CHECK(logits.data[row * 5 + c] == Approx(want).epsilon(1e-5));
    }
  }
}

TEST_CASE("The paper's networks on orthogonal updates have its weights and multiply-adds") {
  struct Row {
    std::string name;
    int image, classes;
    double millions, gmacs;
  };
  // As the paper prints them: CIFAR-10, Tiny ImageNet, ImageNet.
  const std::vector<Row> rows = {{"oru_vit_s", 32, 10, 10.69, 0.71},   {"oru_vit_s", 64, 200, 10.81, 0.71},
                                 {"oru_vit_s", 224, 1000, 11.39, 2.3}, {"oru_vit_b", 32, 10, 85.1, 5.6},
                                 {"oru_vit_b", 64, 200, 85.4, 5.6},    {"oru_vit_b", 224, 1000, 86.5, 17.6}};
  for (const Row& row : rows) {
    CAPTURE(row.name, row.image);
    const ir::Module module =
        models::build(ir::Selection{row.name}.set("image", row.image).set("classes", row.classes), 1);
    // Within half of the last digit that is printed.
    const bool two = row.millions < 80;
    CHECK(static_cast<double>(trainable_count(module)) * 1e-6 ==
          Approx(row.millions).epsilon(0).margin(two ? 0.005 : 0.05));
    CHECK(ir::multiply_adds(module.function("forward")) * 1e-9 ==
          Approx(row.gmacs).epsilon(0).margin(row.gmacs < 1 ? 0.005 : 0.05));
  }
}

TEST_CASE("The zoo costs the multiply-adds that the papers print") {
  const auto gmacs = [](ir::Selection options) {
    return ir::multiply_adds(models::build(options, 1).function("forward")) * 1e-9;
  };
  CHECK(gmacs(ir::Selection{"vit_s16_224"}) == Approx(4.6).epsilon(0).margin(0.05));
  CHECK(gmacs(ir::Selection{"vit_b16_224"}) == Approx(17.6).epsilon(0).margin(0.05));
  CHECK(gmacs(ir::Selection{"vit_s_cifar"}) == Approx(0.71).epsilon(0).margin(0.005));
  CHECK(gmacs(ir::Selection{"deit_tiny"}) == Approx(1.3).epsilon(0).margin(0.05));
  CHECK(gmacs(ir::Selection{"deit_small"}) == Approx(4.6).epsilon(0).margin(0.05));
  CHECK(gmacs(ir::Selection{"deit_base"}) == Approx(17.6).epsilon(0).margin(0.05));
  for (const char* name : {"vit_b16_224", "deit_base"}) {
    const ir::Selection large = ir::Selection{name}.set("image", 384);
    CHECK(gmacs(large) == Approx(55.5).epsilon(0).margin(0.05));
    CHECK(trainable_count(models::build(large, 1)) == 86859496);  // timm's deit_base_patch16_384
  }
  // A batch costs as many times one image.
  const ir::Module three = models::build(small(), 3);
  CHECK(ir::multiply_adds(three.function("forward")) * 1e-9 == Approx(3 * gmacs(small())).epsilon(1e-12));
}

}  // namespace
}  // namespace rewire
