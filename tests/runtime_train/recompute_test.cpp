// What gradients read that is computed again, on a vision transformer with all that draws numbers: the same numbers
// whatever is computed again, and the memory that each way takes.
#include "ir/passes/recompute.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/passes/recompute_blocks.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "models/model.h"
#include "programs/programs.h"
#include "runtime/exec/make_engine.h"
#include "runtime/network/weights.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kDepth = 4, kImages = 3;

ir::Module deep_vit(ir::Recompute mode, const std::string& optimizer = "adamw") {
  ir::Selection model{"vit"};
  model.set("dim", 12).set("depth", kDepth).set("heads", 2).set("patch", 7).set("dropout", 0.1);
  ir::Module module = models::build(model.set("drop_path", 0.2), kImages);
  ir::set_recompute(module, mode);
  programs::TrainOptions options;
  options.optimizer = {optimizer};
  options.optimizer.set("lr", 0.01);
  programs::add_step_program(module, options);
  return module;
}

/// As codegen sees it.
ir::Module simplified(const ir::Module& module, std::string_view program = "step") {
  ir::Module compiled = module;
  compiled.functions = {module.function(program)};
  ir::PassContext context;
  ir::run_pipeline(compiled, context);
  ir::verify(compiled);
  return compiled;
}

std::int64_t clones(const ir::Function& function) {
  return std::ranges::count_if(function.body,
                               [](const ir::Op& op) { return op.location.ends_with(".recomputed"); });
}

TEST_CASE("Computing blocks again changes no number, and holds their inputs alone") {
  const ir::Module none = simplified(deep_vit(ir::Recompute::none));
  const ir::Module cheap = simplified(deep_vit(ir::Recompute::cheap));
  const ir::Module blocks = simplified(deep_vit(ir::Recompute::blocks));
  CHECK(clones(none.function("step")) == 0);
  CHECK(clones(cheap.function("step")) > 0);
  const std::int64_t held = ir::peak_bytes(blocks.function("step"));
  CHECK(held < ir::peak_bytes(cheap.function("step")));
  CHECK(ir::peak_bytes(cheap.function("step")) < ir::peak_bytes(none.function("step")));

  // Each block's products are computed once more: qkv, proj, fc1, fc2; fc2's own result no gradient reads.
  const auto products = [](const ir::Module& module) {
    return std::ranges::count(module.function("step").body, ir::Opcode::matmul, &ir::Op::code);
  };
  CHECK(products(blocks) - products(none) == 3 * kDepth);
  const auto attentions = [](const ir::Module& module) {
    return std::ranges::count(module.function("step").body, ir::Opcode::attention, &ir::Op::code);
  };
  CHECK(attentions(none) == kDepth);
  CHECK(attentions(blocks) == 2 * kDepth);

  std::map<std::string, std::vector<double>> weights;
  int k = 0;
  for (const ir::Parameter& parameter : none.parameters) {
    if (parameter.trainable)
      weights[parameter.name] = numbers(static_cast<std::size_t>(parameter.type.elements()), ++k);
  }
  const std::vector<double> images = numbers(kImages * 28 * 28, 90);
  const auto trained = [&](const ir::Module& module) {
    ir::EvalState state = start(module, weights);
    call(module, "step", {images, {3, 1, 4}}, state);
    return state.tensors;
  };
  const auto expected = trained(none);
  for (const ir::Module* module : {&cheap, &blocks}) {
    const auto got = trained(*module);
    for (const auto& [name, tensor] : expected) {
      CAPTURE(name);
      CHECK(got.at(name).data == tensor.data);
    }
  }
}

TEST_CASE(
    "Blocks computed again take no more memory than cheap chains, in every family, and change no number") {
  struct Row {
    const char* name;
    ir::Attributes options;
    std::int64_t batch;
  };
  const std::vector<Row> rows = {
      {"resnetv2",
       {{"width", std::int64_t{4}}, {"image", std::int64_t{12}}, {"depths", ir::Doubles{2, 2}}},
       3},
      {"resnet",
       {{"width", std::int64_t{4}},
        {"image", std::int64_t{12}},
        {"stem", std::string("conv3")},
        {"depths", ir::Doubles{2, 2}}},
       3},
      {"pvt",
       {{"image", std::int64_t{16}},
        {"embed_dims", ir::Doubles{8, 16}},
        {"depths", ir::Doubles{2, 1}},
        {"num_heads", ir::Doubles{1, 2}},
        {"mlp_ratios", ir::Doubles{2, 2}},
        {"patch_sizes", ir::Doubles{2, 2}},
        {"sr_ratios", ir::Doubles{2, 1}}},
       3},
      {"t2t_vit", {{"dim", std::int64_t{8}}, {"token_dim", std::int64_t{4}}, {"depth", std::int64_t{3}}}, 2},
      {"vit", {{"dim", std::int64_t{12}}, {"heads", std::int64_t{2}}, {"depth", std::int64_t{3}}}, 1}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto stepped = [&](ir::Recompute mode) {
      ir::Module module = models::build({row.name, row.options}, row.batch);
      ir::set_recompute(module, mode);
      programs::add_step_program(module, {});
      return simplified(module);
    };
    const ir::Module none = stepped(ir::Recompute::none), cheap = stepped(ir::Recompute::cheap),
                     blocks = stepped(ir::Recompute::blocks);
    const auto peak = [](const ir::Module& module) { return ir::peak_bytes(module.function("step")); };
    CHECK(peak(cheap) <= peak(none));
    CHECK(peak(blocks) <= peak(cheap));
    std::map<std::string, std::vector<double>> weights;
    int k = 0;
    for (const ir::Parameter& parameter : none.parameters) {
      if (parameter.trainable)
        weights[parameter.name] = numbers(static_cast<std::size_t>(parameter.type.elements()), ++k);
    }
    const ir::Shape image =
        none.function("step")
            .types.at(static_cast<std::size_t>(none.function("step").argument("image").id))
            .shape;
    std::size_t pixels = 1;
    for (const std::int64_t extent : image) pixels *= static_cast<std::size_t>(extent);
    const std::vector<double> images = numbers(pixels, 90), labels(static_cast<std::size_t>(row.batch), 1);
    const auto trained = [&](const ir::Module& module) {
      ir::EvalState state = start(module, weights);
      call(module, "step", {images, labels}, state);
      return state.tensors;
    };
    const auto expected = trained(none);
    for (const auto& [state, tensor] : trained(blocks)) {
      CAPTURE(state);
      CHECK(tensor.data == expected.at(state).data);
    }
  }
}

TEST_CASE("A program without gradients is computed once, whatever is asked for") {
  ir::Module module = deep_vit(ir::Recompute::blocks);
  programs::add_eval_program(module);
  CHECK(clones(simplified(module, "eval").function("eval")) == 0);
}

TEST_CASE("The choice stands in the module's text, and another word is refused") {
  for (const ir::Recompute mode : {ir::Recompute::cheap, ir::Recompute::none, ir::Recompute::blocks}) {
    ir::Module module = linear_model(2, 2, 2);
    ir::set_recompute(module, mode);
    CHECK(ir::recompute_mode(ir::parse(ir::print(module))) == mode);
  }
  ir::Module module = linear_model(2, 2, 2);
  module.attributes.set("recompute", std::string("all"));
  CHECK_THROWS_WITH(ir::recompute_mode(module),
                    REWIRE_CATCH_CONTAINS("attribute 'recompute' must be \"none\" or \"block\""));
}

TEST_CASE("Compiled steps end in the same weights, whatever is computed again") {
  const auto steps = [](ir::Recompute mode) {
    // Where a gradient is nothing but rounding (the keys' bias), AdamW's steps are as long as elsewhere.
    const ir::Module module = deep_vit(mode, "sgd");
    const std::unique_ptr<Engine> engine = make_engine(engine_names().front(), module, {.threads = 1});
    start_state(*engine, module, fresh_weights(module, {}, 7), 7);
    for (int step = 0; step < 3; ++step) {
      TensorMap inputs;
      ir::Tensor image({ir::DType::f32, {kImages, 1, 28, 28}});
      image.data = numbers(image.data.size(), step);
      inputs.emplace("image", to_host(image));
      inputs.emplace("label", to_host({{ir::DType::i64, {kImages}}, {3, 1, 4}}));
      engine->run("step", inputs);
    }
    return weights_of(*engine, module);
  };
  const TensorMap expected = steps(ir::Recompute::cheap);
  for (const ir::Recompute mode : {ir::Recompute::none, ir::Recompute::blocks}) {
    const TensorMap got = steps(mode);
    for (const auto& [name, tensor] : expected) {
      CAPTURE(name, static_cast<int>(mode));
      const auto a = tensor.as<float>(), b = got.at(name).as<float>();
      double difference = 0, norm = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
        norm += std::pow(static_cast<double>(a[i]), 2);
      }
      // Kernels that hold other ops may round otherwise.
      CHECK(std::sqrt(difference) <= 1e-6 * std::sqrt(norm));
    }
  }
}

}  // namespace
}  // namespace rewire::runtime
