// What a rewrite does: slots, claims, filters, added weights, random streams; and that a failed one does
// nothing.
#include <ctime>
#include <filesystem>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/residual.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "plugins/sdk/rewire_plugin.h"
#include "runtime/plugin/pending_ops.h"
#include "tests/runtime_plugin/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

/// The joins whose branch slot is no longer the branch, as "blocks.0.attn".
std::vector<std::string> changed_joins(const ir::Module& module) {
  std::vector<std::string> names;
  const ir::Function& forward = module.function("forward");
  for (std::size_t at : ir::find_joins(forward)) {
    const ir::Join join = ir::read_join(forward.body[at]);
    if (join.branch_slot != join.branch) names.push_back(join.describe());
  }
  return names;
}

std::vector<std::string> changed_by(const std::string& filters, const ResidualNet& net = {},
                                    std::int64_t epoch = 0) {
  return changed_joins(rewritten(residual_net(net), {load("gain", filters)}, 11, epoch));
}

std::string rewrite_error(const std::vector<runtime::PluginHandle>& plugins, const ResidualNet& net = {}) {
  ir::Module module = residual_net(net);
  const std::string before = ir::print(module);
  const std::string error = message_of<UserError>([&] { runtime::apply_plugins(module, plugins, 11); });
  const bool unchanged = ir::print(module) == before;
  CHECK(unchanged);
  return error;
}

/// y of single_join under `plugins`, for samples x and f.
struct Computed {
  std::vector<double> x, f, y;
};
Computed compute(const std::vector<runtime::PluginHandle>& plugins) {
  const ir::TensorType type{ir::DType::f32, {2, 3, 5}};
  const ir::Module module = rewritten(single_join(type), plugins);
  const ir::Tensor x = sample(type), f = sample(type, 1);
  ir::EvalState state = to_eval_state(runtime::initialise(module, 11));
  return {x.data, f.data, ir::evaluate(module, module.function("forward"), {x, f}, state).at(0).data};
}

TEST_CASE("A plugin may set the branch, the shortcut, add a path and clear the shortcut") {
  struct Case {
    const char* values;
    double of_x, of_f;
  };
  for (const Case& c :
       {Case{"slot=untouched", 1, 1}, Case{"factor=3", 1, 3}, Case{"slot=shortcut,factor=0.5", 0.5, 1},
        Case{"slot=path,factor=0.25,negate=on", 1, 0.75}, Case{"slot=cleared", 0, 1},
        Case{"factor=2,power=3", 1, 8}}) {
    CAPTURE(c.values);
    const Computed r = compute({load("gain", c.values)});
    for (std::size_t i = 0; i < r.y.size(); ++i) {
      CHECK(r.y[i] == Approx(c.of_x * r.x[i] + c.of_f * r.f[i]).epsilon(0).margin(1e-14));
    }
  }
}

/// The constants of the module's function, in order: what `slot=facts` multiplied the branches by.
std::vector<double> constants(const ir::Module& module) {
  std::vector<double> values;
  for (const ir::Op& op : module.function("forward").body) {
    if (op.code == ir::Opcode::constant) values.push_back(op.attributes.get_double("value"));
  }
  return values;
}

TEST_CASE("A join says how many blocks its scope has, whatever the filters, and its drop path") {
  const ResidualNet net{.depth = 4, .decoder_depth = 3};
  const auto facts = load("gain", "slot=facts,scope=all,layers=1,sites=mlp");
  CHECK(constants(rewritten(residual_net(net), {facts})) == std::vector<double>{4, 3});

  ir::Module module = single_join({ir::DType::f32, {2, 3, 5}});
  ir::Function& forward = module.function("forward");
  ir::Op join = forward.body.back();
  forward.body.pop_back();
  ir::Builder b(module, forward);
  const ir::TensorType number{ir::DType::i64, {}};
  const ir::Value seed = b.argument("seed", number), step = b.argument("step", number);
  const ir::Value training = b.emit(ir::Opcode::is_training, {}, {}, ir::TensorType{ir::DType::i1, {}});
  const ir::Value dropped = b.emit(ir::Opcode::drop_path, {forward.argument("f"), seed, step, training},
                                   {{"probability", 0.25}, {"stream", std::string("drop")}});
  join.operands = {forward.argument("x"), dropped, forward.argument("x"), forward.argument("x"), dropped};
  forward.body.push_back(join);
  CHECK(constants(rewritten(module, {load("gain", "slot=facts")})) == std::vector<double>{1.25});
}

TEST_CASE("Joins are named after where they stand") {
  ir::Module module = residual_net({});
  ir::Function& forward = *module.find_function("forward");
  const std::vector<std::size_t> joins = ir::find_joins(forward);
  forward.body[joins[0]].location = "stages.1.blocks.0.attn";
  CHECK(changed_joins(rewritten(module, {load("gain")}, 11)) ==
        std::vector<std::string>{"stages.1.blocks.0.attn", "blocks.0.mlp", "blocks.1.attn", "blocks.1.mlp"});
}

TEST_CASE("Plugins on different slots compose, in any order") {
  const auto branch = load("gain", "factor=3"), shortcut = load("gain", "slot=shortcut,factor=0.5"),
             path = load("gain", "slot=path,factor=2");
  const Computed r = compute({branch, shortcut, path, path});
  for (std::size_t i = 0; i < r.y.size(); ++i)
    CHECK(r.y[i] == Approx(0.5 * r.x[i] + 7 * r.f[i]).epsilon(0).margin(1e-14));
  CHECK(compute({path, shortcut, path, branch}).y == r.y);
}

TEST_CASE("A plugin reads the original stream and branch, whatever another has set") {
  // Were the second plugin to read the slot, the factor would be 6.
  const Computed r = compute({load("gain", "factor=3"), load("gain", "slot=path,factor=2")});
  for (std::size_t i = 0; i < r.y.size(); ++i)
    CHECK(r.y[i] == Approx(r.x[i] + 5 * r.f[i]).epsilon(0).margin(1e-14));
}

TEST_CASE("Claiming a claimed slot is an error that names both plugins") {
  CHECK(rewrite_error({load("gain"), load("misbehave", "act=claim_twice")}) ==
        "plugin 'misbehave': the branch of blocks.0.attn is already claimed by plugin 'gain': use one of the "
        "two, or give them disjoint sites= or layers=");
  CHECK_THAT(rewrite_error({load("gain", "slot=shortcut"), load("gain", "slot=cleared")}),
             REWIRE_CATCH_CONTAINS("the shortcut of blocks.0.attn is already claimed by plugin 'gain'"));
  CHECK_THAT(rewrite_error({load("gain", "slot=cleared"), load("gain", "slot=shortcut")}),
             REWIRE_CATCH_CONTAINS("the shortcut of blocks.0.attn is already claimed by plugin 'gain'"));
}

TEST_CASE("Changes are done in the order of the plugins, behind what sets a slot") {
  const auto set = load("gain", "factor=3"), scale = load("terms", "to=changed_branch,factor=2"),
             path = load("terms", "to=path,factor=0.5"), halve = load("terms", "to=changed_sum,factor=0.5"),
             shortcut = load("terms", "to=changed_shortcut,factor=5");
  const Computed r = compute({set, scale, shortcut, path, halve, halve});
  for (std::size_t i = 0; i < r.y.size(); ++i)
    CHECK(r.y[i] == Approx((5 * r.x[i] + 6.5 * r.f[i]) / 4).epsilon(0).margin(1e-14));
  CHECK(compute({scale, scale}).y == compute({load("terms", "to=changed_branch,factor=4")}).y);
  const ir::Module module = rewritten(single_join({ir::DType::f32, {2, 3, 5}}), {set, scale, path, halve});
  const ir::Function& forward = module.function("forward");
  const ir::Join join = ir::read_join(forward.body[ir::find_joins(forward).front()]);
  CHECK(join.branch_owner == "gain");
  CHECK(join.changes ==
        std::vector<ir::Join::Change>{{"branch", "terms"}, {"path", "terms"}, {"sum", "terms"}});
}

TEST_CASE("What would be lost, or would come too late, is refused in one line that names both plugins") {
  const auto terms = [](const char* to) { return load("terms", std::string("to=") + to); };
  const auto own = load("gain");  // sets the branch
  CHECK(rewrite_error({terms("changed_branch"), own}) ==
        "plugin 'gain': the branch of blocks.0.attn has been changed by plugin 'terms', which would be lost: "
        "name "
        "'gain' before it");
  CHECK(rewrite_error({terms("changed_sum"), own}) ==
        "plugin 'gain': the sum of blocks.0.attn has been extended by plugin 'terms', which reads it "
        "unchanged: name 'gain' before it");
  CHECK(rewrite_error({terms("sum"), own}) ==
        "plugin 'gain': the sum of blocks.0.attn is already claimed by plugin 'terms', with both slots and "
        "all paths: use one of 'terms' and 'gain', or give them disjoint sites= or layers=");
  CHECK(rewrite_error({own, terms("sum")}) ==
        "plugin 'terms': it claims the whole sum of blocks.0.attn, of which plugin 'gain' has a part: use "
        "one of "
        "'gain' and 'terms', or give them disjoint sites= or layers=");
  for (const char* to :
       {"path", "shortcut", "branch", "cleared", "changed_branch", "changed_shortcut", "sum"}) {
    CAPTURE(to);
    CHECK_THAT(rewrite_error({terms("sum"), terms(to)}),
               REWIRE_CATCH_CONTAINS("is already claimed by plugin"));
    CHECK_THAT(rewrite_error({terms(to), terms("sum")}), REWIRE_CATCH_CONTAINS("claim"));
  }
  CHECK_THAT(rewrite_error({terms("changed_sum"), terms("path")}), REWIRE_CATCH_CONTAINS("before it"));
  CHECK_THAT(rewrite_error({terms("cleared"), terms("changed_shortcut")}),
             REWIRE_CATCH_CONTAINS("it changed the shortcut of blocks.0.attn, but the join has none"));
}

TEST_CASE("The same plugin may stand twice with disjoint filters") {
  const ir::Module module =
      rewritten(residual_net({}), {load("gain", "sites=attn"), load("gain", "sites=mlp")});
  CHECK(changed_joins(module).size() == 4);
  CHECK(rewrite_error({load("gain", "layers=0+1"), load("gain", "layers=1")}) ==
        "plugin 'gain': the branch of blocks.1.attn is already claimed by plugin 'gain': use one of the two, "
        "or give them disjoint sites= or layers=");
}

TEST_CASE("Filters choose the joins that a plugin sees") {
  using Names = std::vector<std::string>;
  const ResidualNet net{.depth = 4, .decoder_depth = 2};
  CHECK(changed_by("", {.depth = 1, .decoder_depth = 1}) == Names{"blocks.0.attn", "blocks.0.mlp"});
  CHECK(changed_by("sites=mlp,layers=0+2-3", net) == Names{"blocks.0.mlp", "blocks.2.mlp", "blocks.3.mlp"});
  CHECK(changed_by("sites=attn+mlp,layers=2", net) == Names{"blocks.2.attn", "blocks.2.mlp"});
  CHECK(changed_by("scope=decoder,layers=1", net) == Names{"decoder_blocks.1.mlp"});
  CHECK(changed_by("scope=all,layers=1", net) ==
        Names{"blocks.1.attn", "blocks.1.mlp", "decoder_blocks.1.mlp"});
}

TEST_CASE("Stages are a filter as blocks are") {
  ir::Module module = residual_net({.depth = 4});
  ir::Function& forward = module.functions.front();
  for (const std::size_t at : ir::find_joins(forward)) {
    ir::Attributes& facts = forward.body[at].attributes;
    facts.set("stage", facts.get_int("block") / 2);
  }
  CHECK(changed_joins(rewritten(module, {load("gain", "stages=1")})) ==
        std::vector<std::string>{"blocks.2.attn", "blocks.2.mlp", "blocks.3.attn", "blocks.3.mlp"});
  CHECK(changed_joins(rewritten(module, {load("gain", "stages=0-1,layers=1-2,sites=mlp")})) ==
        std::vector<std::string>{"blocks.1.mlp", "blocks.2.mlp"});
  CHECK_THROWS_WITH(rewritten(module, {load("gain", "stages=1+3")}),
                    REWIRE_CATCH_CONTAINS("plugin 'gain': stages=1+3: the last stage is 1"));
}

TEST_CASE("Epochs switch a plugin on and off: from the first, up to the second") {
  for (const auto& [epoch, on] : std::map<std::int64_t, bool>{{0, false}, {2, true}, {4, true}, {5, false}}) {
    CAPTURE(epoch);
    CHECK(changed_by("from_epoch=2,to_epoch=5", {}, epoch).empty() == !on);
  }
}

TEST_CASE("A filter that names what the model does not have is an error") {
  CHECK(rewrite_error({load("gain", "layers=0+2")}) == "plugin 'gain': layers=0+2: the last block is 1");
  CHECK(rewrite_error({load("gain", "layers=1-2")}) == "plugin 'gain': layers=1-2: the last block is 1");
  CHECK(rewrite_error({load("gain", "sites=attn+conv")}) ==
        "plugin 'gain': sites: the model has no 'conv' join (it has attn, mlp)");
  CHECK(rewrite_error({load("gain", "scope=decoder")}) ==
        "plugin 'gain': scope=decoder: the model has no such part (it has encoder)");
  CHECK(rewrite_error({load("gain")}, {.depth = 0}) ==
        "plugin 'gain': the model has no residual join to rewrite");
}

TEST_CASE("A rewrite is the same each time, and the text form keeps it") {
  const std::vector<runtime::PluginHandle> plugins = {load("every_function"), load("gain"), load("plain")};
  const std::string text = ir::print(rewritten(residual_net({}), plugins));
  CHECK(ir::print(rewritten(residual_net({}), plugins)) == text);
  CHECK(ir::print(ir::parse(text)) == text);
}

TEST_CASE("New ops carry the place of the join and the plugin's name") {
  const std::string text = ir::print(rewritten(residual_net({}), {load("gain", "sites=mlp,layers=1")}));
  CHECK_THAT(text, REWIRE_CATCH_CONTAINS("loc(\"blocks.1.mlp.gain\")"));
  CHECK_THAT(text, REWIRE_CATCH_CONTAINS("branch_owner = \"gain\""));
}

TEST_CASE("A weight that a plugin adds hangs on its join and trains") {
  const ir::Module module = rewritten(residual_net({}), {load("plain")});
  const ir::Parameter* scale = module.find_parameter("blocks.1.join_attn.scale");
  REQUIRE(scale != nullptr);
  CHECK(scale->type == ir::TensorType{ir::DType::f32, {4}});
  CHECK(scale->init == ir::Init{ir::InitKind::constant, 0.25, 0});
  CHECK(scale->trainable);
  CHECK_FALSE(scale->decay);
  CHECK(scale->role == "join");
  CHECK(scale->site == "attn");
  CHECK(scale->block == 1);
}

TEST_CASE("Joins of one number in encoder and decoder have weights and random streams of their own") {
  const ResidualNet net{.depth = 1, .decoder_depth = 1};
  const ir::Module module = rewritten(residual_net(net), {load("every_function", "scope=all")});
  const std::vector<std::string> prefixes = {"blocks.0.join_attn", "blocks.0.join_mlp",
                                             "decoder_blocks.0.join_mlp"};
  std::vector<std::string> want;
  for (const std::string& prefix : prefixes) {
    CAPTURE(prefix);
    CHECK(module.find_parameter(prefix + ".matrix") != nullptr);
    want.push_back(prefix + ".every_function.keep");
  }
  std::vector<std::string> streams;
  for (const ir::Op& op : module.function("forward").body) {
    if (op.code == ir::Opcode::random_uniform) streams.push_back(op.attributes.get_string("stream"));
  }
  CHECK(streams == want);
  CHECK_THAT(ir::print(module), REWIRE_CATCH_CONTAINS("loc(\"decoder_blocks.0.mlp.every_function\")"));
}

TEST_CASE("The path of a plugin in C computes what it says") {
  const Computed r = compute({load("plain")});  // the input of single_join is x
  for (std::size_t i = 0; i < r.y.size(); ++i) {
    CHECK(r.y[i] == Approx(r.x[i] + r.f[i] + 0.25 * std::tanh(r.x[i])).epsilon(0).margin(1e-14));
  }
}

#ifdef REWIRE_FROZEN
/// A plugin that was built when a minor of the ABI was drawn.
runtime::PluginHandle load_frozen(const TemporaryFolder& folder, const std::string& name) {
  // Copied, for a checkout may lie in a folder that everybody may write.
  std::filesystem::copy_file(std::filesystem::path(REWIRE_FROZEN) / name, folder.path() / name);
  std::filesystem::permissions(folder.path() / name, std::filesystem::perms(0644));
  return runtime::load_plugin({folder.file(name), {}}, {});
}

TEST_CASE("Plugins that were built when earlier minors were drawn still load and compute the same") {
  const TemporaryFolder folder;
  if (REWIRE_SANITIZER != REWIRE_SANITIZER_NONE) {
    CHECK_THAT(message_of<UserError>([&] { load_frozen(folder, "abi_1_0.so"); }),
               REWIRE_CATCH_CONTAINS("build both the same way"));
    return;
  }
  const Computed r = compute({load_frozen(folder, "abi_1_0.so")});
  for (std::size_t i = 0; i < r.y.size(); ++i) {
    CHECK(r.y[i] == Approx(r.x[i] + r.f[i] + 0.25 * std::tanh(r.x[i])).epsilon(0).margin(1e-14));
  }
  for (const char* name : {"abi_1_1.so", "abi_1_2.so", "abi_1_3.so", "abi_1_4.so"}) {
    CAPTURE(name);
    const std::vector<runtime::PluginHandle> plugins = {load_frozen(folder, name)};
    const ir::TensorType type{ir::DType::f32, {2, 3, 5}};
    const ir::Module module = rewritten(single_join(type), plugins);
    runtime::TensorMap weights = runtime::initialise(module, 11);
    runtime::initialise_plugins(module, plugins, 11, weights);
    ir::EvalState state = to_eval_state(weights);
    const ir::Tensor x = sample(type), f = sample(type, 1);
    const std::vector<double> y = ir::evaluate(module, module.function("forward"), {x, f}, state).at(0).data;
    for (std::size_t i = 0; i < y.size(); ++i) {  // one block; the largest singular value is 4
      CHECK(y[i] == Approx(x.data[i] + f.data[i] + 4 * std::tanh(x.data[i])).epsilon(0).margin(1e-14));
    }
  }
}
#endif

TEST_CASE("What a plugin emits has a gradient without its doing") {
  // L = sum(x + f + scale tanh(x)): dL/dscale_d = sum over batch and tokens of tanh(x), dL/df = 1.
  const ir::TensorType type{ir::DType::f32, {2, 3, 5}};
  ir::Module module = rewritten(single_join(type), {load("plain")});
  ir::Function forward = module.function("forward");
  ir::Builder b(module, forward);
  const ir::Value loss = b.reshape(b.sum(forward.result("y"), {0, 1, 2}), {});
  ir::Value scale;
  for (const ir::Op& op : forward.body) {
    if (op.code == ir::Opcode::param) scale = op.results.front();
  }
  const ir::Value wrt[] = {scale, forward.argument("f")};
  const std::vector<ir::Value> gradients = ir::differentiate(b, loss, wrt);
  forward.results = {{"scale", gradients[0]}, {"f", gradients[1]}};

  const ir::Tensor x = sample(type), f = sample(type, 1);
  ir::EvalState state = to_eval_state(runtime::initialise(module, 11));
  const std::vector<ir::Tensor> values = ir::evaluate(module, forward, {x, f}, state);
  for (std::size_t d = 0; d < 5; ++d) {
    double want = 0;
    for (std::size_t row = 0; row < 6; ++row) want += std::tanh(x.data[row * 5 + d]);
    CHECK(values[0].data[d] == Approx(want).epsilon(0).margin(1e-12));
  }
  for (double g : values[1].data) CHECK(g == 1);
}

TEST_CASE("Every function of the C++ wrapper works") {
  const ir::Module module = rewritten(residual_net({}), {load("every_function")});
  ir::EvalState state = to_eval_state(runtime::initialise(module, 11));
  const ir::Function& forward = module.function("forward");
  const ir::Tensor image = sample(forward.type(forward.arguments.at(0).value));
  state.training = true;
  const std::vector<ir::Tensor> values = ir::evaluate(module, forward, {image}, state);
  for (double y : values.at(0).data) CHECK(std::isfinite(y));
  CHECK_THAT(ir::print(module), REWIRE_CATCH_CONTAINS("stream = \"blocks.0.join_attn.every_function.keep\""));
  const ir::Parameter* matrix = module.find_parameter("blocks.0.join_mlp.matrix");
  REQUIRE(matrix != nullptr);
  CHECK(matrix->decay);
  CHECK_FALSE(module.find_parameter("blocks.0.join_mlp.frozen")->trainable);
}

TEST_CASE("What a host function costs does not grow with what was emitted before") {
  // 64,000 weights and ten times as many ops take 2 s. Where each function looks through all of them it is
  // minutes.
  const int count = REWIRE_SANITIZER == REWIRE_SANITIZER_NONE ? 64000 : 8000;
  const runtime::PluginHandle many = load("many", fmt::format("count={}", count));
  const std::clock_t before = std::clock();
  const ir::Module module = rewritten(residual_net({}), {many});
  CHECK(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC < 30);
  CHECK(module.find_parameter(fmt::format("blocks.0.join_attn.w{}", count - 1)) != nullptr);
}

TEST_CASE("Ops stand before the join that they were emitted at, in the order in which they were") {
  ir::Module module = residual_net({});
  ir::Function& forward = module.function("forward");
  const std::vector<std::size_t> joins = ir::find_joins(forward);
  std::vector<std::int32_t> before;
  for (const ir::Op& op : forward.body) before.push_back(op.results.front().id);
  runtime::Definitions definitions(forward);
  runtime::PendingOps pending(forward, definitions);
  const auto emit = [&](std::size_t join, ir::Value operand = {}) {
    pending.begin(joins[join]);
    if (operand) pending.stand_behind(operand);
    ir::Builder b(module, forward);
    if (operand) {
      b.emit(ir::Opcode::neg, {operand});
    } else {
      b.constant(0);
    }
    return forward.body.back().results.front();
  };
  const ir::Value last = emit(1), first = emit(0), second = emit(0);
  const ir::Value stream = forward.body[joins[0]].results.front();
  const ir::Value behind = emit(0, stream);
  CHECK(pending.depends_on(behind, {joins[0]}));
  CHECK_FALSE(pending.depends_on(behind, {joins[1]}));
  CHECK_FALSE(pending.depends_on(forward.arguments.front().value, {joins[0]}));

  // An old op that reads what stands behind it pulls it forward, and nothing else.
  const ir::Value early = emit(1);
  pending.make_read(2, early);
  forward.body[2].operands.push_back(early);

  pending.place();
  std::vector<std::int32_t> after;
  for (const ir::Op& op : forward.body) after.push_back(op.results.front().id);
  const auto at = [&](std::size_t i) { return before.begin() + static_cast<std::ptrdiff_t>(i); };
  before.insert(at(joins[1]), last.id);
  before.insert(at(joins[0] + 1), behind.id);
  before.insert(at(joins[0]), {first.id, second.id});
  before.insert(at(2), early.id);
  CHECK(after == before);
}

TEST_CASE("A wrong act of a plugin is one line that names it, and leaves the module as it was") {
  const std::map<std::string, std::string> acts = {
      {"throw", "this model is not to its taste"},
      {"throw_int", "it threw something other than a std::exception"},
      {"nonsense_op",
       "it emitted 'matmull', which is not an op that plugins may emit (did you mean 'matmul'?)"},
      {"no_op_name", "it passed no op's name"},
      {"forbidden_op", "it emitted 'update', which is not an op that plugins may emit"},
      {"wrong_operands", "matmul at blocks.0.attn.misbehave"},
      {"unknown_attribute", "sum at blocks.0.attn.misbehave"},
      {"huge_type",
       "it passed the type f32[2147483648,2147483648]: extents must be >= 1, with at most 2^40 elements"},
      {"rank_nine", "a tensor has at most 8 axes"},
      {"wrong_shape",
       "it gave the branch of blocks.0.attn the type f32[2,3,1]; the stream's is f32[2,3,4] and must not "
       "change"},
      {"wrong_dtype",
       "it gave the shortcut of blocks.0.attn the type f64[2,3,4]; the stream's is f32[2,3,4] and must not "
       "change"},
      {"later_value",
       "it gave the branch of blocks.0.attn a value that is computed from it, at blocks.1.mlp (set_branch, "
       "misbehave.cpp:"},
      {"later_operand",
       "it gave the branch of blocks.0.attn a value that is computed from it, at blocks.0.attn.misbehave "
       "(set_branch, misbehave.cpp:"},
      {"no_value", "a value for blocks.0.attn is empty (set_branch, misbehave.cpp:"},
      {"other_thread", "the other thread was refused"},
      {"no_such_join", "it asked for join 1000 of 4"},
      {"claim_twice",
       "it set the branch of blocks.0.attn twice: set it once, to the sum, or add one of the two by "
       "add_path"},
      {"weight_twice",
       "it added the weight 'blocks.0.join_attn.scale', which already exists: give plugins that add it "
       "disjoint sites= or layers=, or rename the weight"},
      {"weight_name", "it named something '../scale': a name is [a-z][a-z0-9_]*"},
      {"weight_int",
       "it added the weight 'blocks.0.join_attn.scale' as i32[2]: a weight must have a float type"},
      {"weight_fan", "its weight 'scale' of 1 axes has no valid init (kind 6"},
      {"unknown_weight", "the model has no weight 'blocks.77.attn.proj.weight'"},
      {"not_in_schema", "it asked for 'speed', which is not in its schema"},
      {"other_kind", "it asked for 'act' as a float, but it has another kind"},
      {"ignored_error", "it passed no op's name"},
      {"write_in_rewrite", "weights have no values in rewrite"},
      {"status", "it returned status 7 and no message"},
      {"raw_throw", "it threw: raw"},
  };
  for (const auto& [act, words] : acts) {
    CAPTURE(act);
    CHECK_THAT(rewrite_error({load("misbehave", "act=" + act)}),
               REWIRE_CATCH_CONTAINS("plugin 'misbehave': ") && REWIRE_CATCH_CONTAINS(words));
  }
  CHECK(rewrite_error({load("misbehave", "act=none")}) == "(nothing was thrown)");
}

TEST_CASE("The Error of a plugin keeps its lines, and any other exception is one line") {
  CHECK(rewrite_error({load("misbehave", "act=throw_lines")}) == "plugin 'misbehave': a\nb \n c");
  CHECK(rewrite_error({load("misbehave", "act=raw_lines")}) == "plugin 'misbehave': it threw: raw lines");
}

TEST_CASE("A handle kept from an earlier call is refused") {
  const std::string gone = "handles are valid until the call returns";
  rewritten(residual_net({}), {load("misbehave", "act=keep_value")});
  CHECK_THAT(
      rewrite_error({load("misbehave", "act=kept_value")}),
      REWIRE_CATCH_CONTAINS("it used a value of another call: values are valid until rewrite returns"));
  CHECK_THAT(rewrite_error({load("misbehave", "act=kept_call")}), REWIRE_CATCH_CONTAINS(gone));
}

TEST_CASE("When a later plugin fails, the earlier one's rewrite is dropped as well") {
  CHECK_THAT(rewrite_error({load("gain"), load("misbehave", "act=throw")}),
             REWIRE_CATCH_CONTAINS("plugin 'misbehave': this model is not to its taste"));
}

}  // namespace
}  // namespace rewire::test
