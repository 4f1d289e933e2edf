// What a plugin asks of a training step: what the module then has, and what is refused.
#include "ir/side_results.h"
#include "ir/text.h"
#include "tests/runtime_plugin/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

std::vector<std::string> result_names(const ir::Module& module) {
  std::vector<std::string> names;
  for (const ir::Argument& result : module.function("forward").results) names.push_back(result.name);
  return names;
}

/// All hooks but the ones that are named off.
std::string with_only(const std::string& hook) {
  std::string values;
  for (const char* other : {"report", "loss", "hint", "progress", "state", "constraint"})
    values += std::string(values.empty() ? "" : ",") + other + (hook == other ? "=on" : "=off");
  return values;
}

const ResidualNet kOneBlock{2, 3, 4, 1, 0};

std::string hooks_error(const std::string& values) {
  ir::Module module = residual_net(kOneBlock);
  const std::string before = ir::print(module);
  const std::string error =
      message_of<UserError>([&] { runtime::apply_plugins(module, {load("hooks", values)}, 11); });
  CHECK(ir::print(module) == before);
  return error;
}

TEST_CASE("Each hook becomes a result of forward, named after its join, plugin or weight") {
  const auto added = [](const std::string& hook) {
    std::vector<std::string> names =
        result_names(rewritten(residual_net(kOneBlock), {load("hooks", with_only(hook))}));
    names.erase(names.begin());  // the logits
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(added("report") == Names{"report.blocks.0.attn.hooks.gate", "report.blocks.0.mlp.hooks.gate"});
  CHECK(added("loss") == Names{"loss.blocks.0.attn.hooks", "loss.blocks.0.mlp.hooks"});
  CHECK(added("state") == Names{"update.blocks.0.join_attn.m", "update.blocks.0.join_mlp.m"});
  CHECK(added("constraint") == Names{"after_step.blocks.0.join_attn.w", "after_step.blocks.0.join_mlp.w"});
  CHECK(added("progress").empty());
  CHECK(added("hint").empty());
}

TEST_CASE("A module with every hook prints, parses and prints the same") {
  const ir::Module module = rewritten(residual_net(kOneBlock), {load("hooks")});
  const std::string text = ir::print(module);
  CHECK(ir::print(ir::parse(text)) == text);
  CHECK_THAT(text,
             REWIRE_CATCH_CONTAINS("param @blocks.0.join_attn.w : f32[1,1,4] {beta1 = 0.8, block = 0, init = "
                                   "\"constant(0.5)\", lr_scale = 3.0, role = \"join\", site = \"attn\", "
                                   "weight_decay = 0.0}"));
  CHECK_THAT(text,
             REWIRE_CATCH_CONTAINS("state @train.progress : f32[] {decay = false, init = \"zeros\", role = "
                                   "\"progress\"}"));
  CHECK_THAT(text, REWIRE_CATCH_CONTAINS("report.blocks.0.mlp.hooks.gate: f32[]"));
}

TEST_CASE("Hints are of an added weight by its own name, and of any weight in full") {
  const ir::Module module = rewritten(residual_net(kOneBlock), {load("hooks")});
  const ir::OptimizerHint& own = module.find_parameter("blocks.0.join_attn.w")->hint;
  CHECK(own == ir::OptimizerHint{3.0, 0.0, 0.8, std::nullopt});
  CHECK(module.find_parameter("blocks.0.attn.proj.weight")->hint == ir::OptimizerHint{0.5, {}, {}, {}});
  CHECK(module.find_parameter("blocks.0.norm1.weight")->hint == ir::OptimizerHint{});
}

TEST_CASE("Two plugins may hint one weight, but not differ in a number") {
  const runtime::PluginHandle attn = load("hooks", "sites=attn");
  ir::Module module = residual_net(kOneBlock);
  // Both joins' last weights differ; the same plugin twice adds the same weight, which is refused first.
  CHECK_THAT(message_of<UserError>([&] { runtime::apply_plugins(module, {attn, attn}, 11); }),
             REWIRE_CATCH_CONTAINS("it added the weight 'blocks.0.join_attn.w', which already exists"));
  CHECK_THAT(hooks_error("fault=hint_twice"),
             REWIRE_CATCH_CONTAINS("its hint for the weight 'blocks.0.join_attn.w' is lr_scale = 4, but it "
                                   "already has 3: give plugins that hint it disjoint sites= or layers="));
}

TEST_CASE("What a hook cannot take is refused in one line, and the network stays") {
  struct Case {
    const char *fault, *says;
  };
  const Case cases[] = {
      {"report_vector", "its report 'w2' at blocks.0.attn is f32[1,1,4], but must be a float of one element"},
      {"report_twice", "it reported 'gate' twice at blocks.0.attn"},
      {"report_name", "it reported something as 'Gate': a name is [a-z][a-z0-9_]*"},
      {"loss_integer",
       "its term of the loss at blocks.0.attn is i32[1,1,1], but must be a float of one element"},
      {"hint_range",
       "its hint for the weight 'blocks.0.join_attn.w': lr_scale = 0 is out of range: it takes a "
       "finite number > 0"},
      {"hint_nan", "weight_decay = nan is out of range: it takes a finite number >= 0"},
      {"hint_beta", "beta2 = 1 is out of range: it takes a number in [0, 1)"},
      {"hint_frozen", "its hint is for the weight 'blocks.0.join_attn.m', which is not trained"},
      {"hint_unknown", "the model has no weight 'no_such'"},
      {"state_trains",
       "it updates the weight 'blocks.0.join_attn.w', which the optimizer trains: add it as "
       "frozen, or use after_step"},
      {"state_shape",
       "it gave the weight 'blocks.0.join_attn.m' a value of f32[1,1,1], but the weight is f32[1,1,4]"},
      {"state_twice", "the weight 'blocks.0.join_attn.m' gets a value for the next step twice"},
      {"after_frozen", "no optimizer changes the weight 'blocks.0.join_attn.m': use update_state"},
      {"after_batch",
       "the value of 'blocks.0.join_attn.w' after a step depends on the batch; it may depend only on the "
       "weight"},
      {"after_random", "after a step depends on random numbers"},
      {"after_other", "after a step depends on 'blocks.0.attn.proj.weight', which is trained too"},
      {"after_nothing", "after a step does not depend on the weight: add it as frozen"},
      {"after_twice", "the weight 'blocks.0.join_attn.w' gets a value after the step twice"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.fault);
    const std::string error = hooks_error(std::string("fault=") + c.fault);
    CHECK_THAT(error, REWIRE_CATCH_CONTAINS(c.says));
    CHECK(error.starts_with("plugin 'hooks': "));
    CHECK(error.find('\n') == std::string::npos);
  }
}

}  // namespace
}  // namespace rewire::test
